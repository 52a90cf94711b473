"""Downloads against a local server that behaves as badly as the real network."""

import hashlib
import http.client
import http.server
import itertools
import socket
import threading
import urllib.error
import urllib.request
from functools import partial

import pytest

from bihm_repro.datasets import fetch as module
from bihm_repro.datasets.fetch import Policy, Unreachable, fetch
from bihm_repro.errors import InputError, SetupError

BODY = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Answers from a script: one behaviour a request, the last one repeated."""

    daemon_threads = True

    def __init__(self, *script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.requests = list(script), []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/folder/adult.npz"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        step = server.script.pop(0) if len(server.script) > 1 else server.script[0]
        step(self)

    def answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


def whole(handler):
    handler.answer(200, BODY, ETag='"one"')


def ranged(handler, tag='"one"', body=BODY):
    """Serve the rest of the file where the asked-for version is still the current one."""
    wanted = handler.headers.get("Range")
    if not wanted or handler.headers.get("If-Range") != tag:
        return handler.answer(200, body, ETag=tag)
    start = int(wanted[len("bytes=") : -1])
    if start >= len(body):
        return handler.answer(416, Content_Range=f"bytes */{len(body)}")
    handler.answer(
        206, body[start:], ETag=tag, Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}"
    )


def cut_at(count, **headers):
    headers = headers or {"ETag": '"one"'}

    def step(handler):
        handler.answer(200, BODY[:count], length=len(BODY), **headers)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    return step


def reset(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def silent(handler):
    handler.server.released.wait(10)


def status(code, **headers):
    return lambda handler: handler.answer(code, b"<html>sorry</html>", **headers)


@pytest.fixture
def serve():
    servers = []

    def start(*script):
        server = Server(*script)
        server.released = threading.Event()
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.released.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def patience():
    """A policy that notes its pauses instead of sleeping."""
    pauses = []
    return Policy(tries=4, timeout=5, sleep=pauses.append), pauses


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_arrives_complete(serve, tmp_path):
    path = fetch(serve(whole).url, tmp_path / "raw", sha256=SHA256)
    assert path == tmp_path / "raw" / "adult.npz" and path.read_bytes() == BODY
    assert leftovers(path.parent) == ["adult.npz"]


def test_a_cut_connection_is_taken_up_where_it_broke(serve, tmp_path, patience):
    server = serve(cut_at(100_000), ranged)
    assert fetch(server.url, tmp_path, sha256=SHA256, policy=patience[0]).read_bytes() == BODY
    assert [request.get("Range") for request in server.requests] == [None, "bytes=100000-"]
    assert server.requests[1]["If-Range"] == '"one"'
    assert patience[1] == [1.0]


def test_a_later_command_continues_what_an_earlier_one_left(serve, tmp_path):
    once = Policy(tries=1)
    with pytest.raises(SetupError, match="cut after 100000 of 256000"):
        fetch(serve(cut_at(100_000)).url, tmp_path, policy=once)
    server = serve(ranged)
    assert fetch(server.url, tmp_path, policy=once).read_bytes() == BODY
    assert server.requests[0]["Range"] == "bytes=100000-"


def test_two_versions_are_never_glued_together(serve, tmp_path, patience):
    other = BODY[::-1]
    server = serve(cut_at(100_000), lambda handler: ranged(handler, '"two"', other))
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == other


def test_a_server_without_ranges_or_tags_is_asked_for_the_complete_file(serve, tmp_path, patience):
    server = serve(cut_at(10), whole)
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == BODY
    server = serve(cut_at(10, X_None="1"), whole)
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == BODY
    assert "Range" not in server.requests[1]


def test_a_part_that_the_server_no_longer_has_is_dropped(serve, tmp_path, patience):
    server = serve(cut_at(1000), status(416), whole)
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == BODY


def test_a_wrong_part_is_dropped(serve, tmp_path, patience):
    def misplaced(handler):
        handler.answer(206, BODY[:50], Content_Range=f"bytes 0-49/{len(BODY)}")

    server = serve(cut_at(1000), misplaced, whole)
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == BODY


def test_busy_servers_are_tried_again_after_growing_pauses(serve, tmp_path, patience):
    server = serve(status(503), reset, status(429, Retry_After="7"), whole)
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == BODY
    assert patience[1] == [1.0, 2.0, 7.0]


def test_patience_ends_with_the_last_reason(serve, tmp_path, patience):
    server = serve(status(503))
    with pytest.raises(SetupError, match=r"adult\.npz: given up after 4 tries \(HTTP 503"):
        fetch(server.url, tmp_path, policy=patience[0])
    assert len(server.requests) == 4 and leftovers(tmp_path) == []


def test_a_silent_server_times_out(serve, tmp_path):
    with pytest.raises(SetupError, match="timed out"):
        fetch(serve(silent).url, tmp_path, policy=Policy(tries=1, timeout=0.1))


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_is_final(serve, tmp_path, patience, code):
    server = serve(status(code))
    with pytest.raises(SetupError, match=f"HTTP {code}"):
        fetch(server.url, tmp_path, policy=patience[0])
    assert len(server.requests) == 1 and leftovers(tmp_path) == []


def test_half_a_file_sent_as_complete_is_refused_by_its_checksum(serve, tmp_path, patience):
    server = serve(lambda handler: handler.answer(200, BODY[:1000]))
    with pytest.raises(SetupError, match="not the published ones"):
        fetch(server.url, tmp_path, sha256=SHA256, policy=patience[0])
    assert len(server.requests) == 2 and leftovers(tmp_path) == []


def test_wrong_bytes_once_are_fetched_again(serve, tmp_path, patience):
    server = serve(lambda handler: handler.answer(200, b"x" * len(BODY)), whole)
    assert fetch(server.url, tmp_path, sha256=SHA256, policy=patience[0]).read_bytes() == BODY


def test_a_host_that_is_not_there_is_unreachable(tmp_path, patience):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/adult.npz"
        with pytest.raises(Unreachable, match="no connection"):
            fetch(url, tmp_path, policy=patience[0])


def test_a_host_that_swallows_connections_is_given_up_after_two_tries(
    tmp_path, monkeypatch, patience
):
    calls = []

    class Swallowing:
        def open(self, request, timeout):
            calls.append(request.full_url)
            raise urllib.error.URLError(TimeoutError("timed out"))

    monkeypatch.setattr(module, "_opener", Swallowing)
    with pytest.raises(Unreachable, match="given up after 2 tries"):
        fetch("http://example.invalid/adult.npz", tmp_path, policy=patience[0])
    assert len(calls) == 2


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname",
        "ftp://example.invalid/x.npz",
        "http://",
        "http://[::1/x",
        "https:x",
        "http://example.invalid:99999/x",
        "http://example.invalid:8²/x",
        "http://a b/x",
        "http://a/\n",
    ],
)
def test_other_urls_are_refused(tmp_path, url):
    with pytest.raises(InputError, match="not an http or https URL"):
        fetch(url, tmp_path)


def redirect(target):
    return lambda handler: handler.answer(302, Location=target)


def test_a_redirect_within_http_is_followed(serve, tmp_path):
    target = serve(whole)
    assert fetch(serve(redirect(target.url)).url, tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/adult.npz", "file:///etc/hostname"])
def test_a_redirect_to_another_scheme_is_refused(serve, tmp_path, patience, target):
    with pytest.raises(SetupError, match="(?i)redirect"):
        fetch(serve(redirect(target)).url, tmp_path, policy=patience[0])


@pytest.mark.parametrize("target", ["http://[::1", "//[", "http://[x]/"])
def test_a_redirect_to_no_url_is_refused(serve, tmp_path, patience, target):
    with pytest.raises(SetupError, match="redirects to a URL that is not valid"):
        fetch(serve(redirect(target)).url, tmp_path, policy=patience[0])


def test_a_redirect_from_https_to_http_is_refused():
    handler = module._SameSchemeRedirects()
    request = urllib.request.Request("https://example.invalid/a")
    headers = http.client.HTTPMessage()
    with pytest.raises(SetupError, match="redirects to 'http://example.invalid/a'"):
        handler.redirect_request(request, None, 302, "Found", headers, "http://example.invalid/a")
    assert handler.redirect_request(request, None, 302, "Found", headers, "https://b.invalid/a")


def test_a_server_that_ignores_if_range_is_asked_for_the_complete_file(serve, tmp_path, patience):
    other = BODY[::-1]

    def another_version(handler):
        handler.answer(
            206,
            other[1000:],
            ETag='"two"',
            Content_Range=f"bytes 1000-{len(other) - 1}/{len(other)}",
        )

    server = serve(
        cut_at(1000), another_version, lambda handler: handler.answer(200, other, ETag='"two"')
    )
    assert fetch(server.url, tmp_path, policy=patience[0]).read_bytes() == other
    assert [request.get("Range") for request in server.requests] == [None, "bytes=1000-", None]


def test_a_file_that_claims_or_proves_to_be_too_large_is_refused(serve, tmp_path):
    policy = Policy(tries=1, max_bytes=len(BODY) - 1)

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(BODY)

    for step in (whole, endless):
        with pytest.raises(SetupError, match="larger than 255999 bytes"):
            fetch(serve(step).url, tmp_path, policy=policy)
        assert leftovers(tmp_path) == []


def ticking(seconds):
    """A clock that advances by ``seconds`` at each look."""
    return partial(next, itertools.count(0.0, seconds))


def test_a_download_ends_at_its_deadline(serve, tmp_path):
    policy = Policy(tries=3, deadline=10, clock=ticking(4), sleep=lambda _: None)
    with pytest.raises(SetupError, match="not complete after 10 seconds"):
        fetch(serve(whole).url, tmp_path, policy=policy)


def test_headers_that_never_end_are_given_up_at_the_deadline(serve, tmp_path):
    def trickle(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not handler.server.released.wait(0.05):
            handler.wfile.write(b"X")

    with pytest.raises(SetupError, match="no answer within 0.4 seconds"):
        fetch(serve(trickle).url, tmp_path, policy=Policy(tries=1, deadline=0.4))


def test_a_slow_server_is_given_up(serve, tmp_path):
    policy = Policy(tries=2, timeout=5, min_rate=1e6, clock=ticking(6), sleep=lambda _: None)
    with pytest.raises(SetupError, match="given up after 2 tries .slower than"):
        fetch(serve(whole).url, tmp_path, policy=policy)


@pytest.mark.parametrize("length", ["²", "١", "-1", "1e3", "9" * 5000])
def test_odd_digits_in_headers_are_no_numbers(length):
    assert module._number(length) is None
    assert module._number("0123") == 123
