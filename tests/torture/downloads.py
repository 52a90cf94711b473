"""Downloads from a local server that lies, stalls, never ends or redirects.

What is returned has the published digest where there is one, is never larger than the limit, and
nothing is left under the file's name after a refusal.
"""

from __future__ import annotations

import hashlib
import http.server
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from bihm_repro.datasets.fetch import Policy, check_url, fetch
from bihm_repro.errors import InputError, SetupError
from tests.torture.harness import Case, Failure, Group, fault_of
from tests.torture.mutations import NASTY_TEXTS, mutated_text

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()
LIMIT = 50_000
POLICY = Policy(
    tries=3, timeout=0.2, pause=0.0, longest_pause=0.0, max_bytes=LIMIT, deadline=1.0,
    min_rate=2000.0, sleep=lambda seconds: None,
)  # fmt: skip
SLACK = 60.0
"""Seconds beyond the deadline that a busy machine may take."""
Step = Callable[["_Handler", random.Random], None]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    script: list[Step] = []
    chance = random.Random(0)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = 20

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        script = self.server.script
        step = script.pop(0) if len(script) > 1 else script[0]
        with suppress(OSError, ValueError):
            step(self, self.server.chance)
        self.close_connection = True

    def raw(self, text: bytes) -> None:
        self.wfile.write(text)
        self.wfile.flush()


def _head(status: str, **headers: object) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def _whole(handler: _Handler, chance: random.Random) -> None:
    handler.raw(_head("200 OK", Content_Length=len(BODY), ETag='"a"') + BODY)


def _ranged(handler: _Handler, chance: random.Random) -> None:
    asked = handler.headers.get("Range", "")
    if not asked:
        return _whole(handler, chance)
    start = int(asked[len("bytes=") : -1])
    span = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
    rest = BODY[start:]
    handler.raw(
        _head("206 Partial", Content_Length=len(rest), ETag='"a"', Content_Range=span) + rest
    )


def _cut(handler: _Handler, chance: random.Random) -> None:
    part = BODY[: chance.randrange(len(BODY))]
    handler.raw(
        _head("200 OK", Content_Length=len(BODY), ETag=chance.choice(('"a"', '"b"', 'W/"a"', "x")))
        + part
    )


def _wrong_length(handler: _Handler, chance: random.Random) -> None:
    length = chance.choice((0, 1, -1, len(BODY) - 1, 10**12, "²", "9" * 5000, "1e3", ""))
    handler.raw(_head("200 OK", Content_Length=length) + BODY)


def _endless(handler: _Handler, chance: random.Random) -> None:
    handler.raw(_head("200 OK"))
    end = time.monotonic() + 20
    while time.monotonic() < end:
        handler.raw(bytes(8192))


def _endless_chunks(handler: _Handler, chance: random.Random) -> None:
    handler.raw(_head("200 OK", Transfer_Encoding="chunked"))
    end = time.monotonic() + 20
    while time.monotonic() < end:
        handler.raw(b"1000\r\n" + bytes(4096) + b"\r\n")


def _bad_chunks(handler: _Handler, chance: random.Random) -> None:
    handler.raw(_head("200 OK", Transfer_Encoding="chunked"))
    handler.raw(chance.choice((b"zz\r\nabc\r\n", b"-5\r\n", b"ffffffffffff\r\nabc", b"5\r\nab")))


def _slow(handler: _Handler, chance: random.Random) -> None:
    handler.raw(_head("200 OK", Content_Length=len(BODY)))
    for byte in BODY[:60]:
        handler.raw(bytes([byte]))
        time.sleep(0.05)


def _slow_head(handler: _Handler, chance: random.Random) -> None:
    handler.raw(b"HTTP/1.1 200 OK\r\n")
    for _ in range(60):
        handler.raw(b"X-A: b\r\n")
        time.sleep(0.05)


def _long_head(handler: _Handler, chance: random.Random) -> None:
    handler.raw(
        b"HTTP/1.1 200 OK\r\n"
        + b"X-A: "
        + b"a" * chance.choice((1000, 70_000))
        + b"\r\n" * chance.choice((1, 300))
    )


def _garbage(handler: _Handler, chance: random.Random) -> None:
    handler.raw(chance.randbytes(chance.choice((0, 3, 400))))


def _reset(handler: _Handler, chance: random.Random) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def _status(handler: _Handler, chance: random.Random) -> None:
    code = chance.choice(
        (204, 206, 301, 304, 400, 401, 403, 404, 407, 408, 416, 429, 500, 503, 999)
    )
    retry = chance.choice(("0", "-1", "²", "9" * 5000, "soon", "99999999"))
    reason = chance.choice(("Sorry", "\x1b[31mred", "", "a" * 3000))
    span = chance.choice(("bytes 5-9/10", "bytes 0-/²", "", "bytes */*"))
    handler.raw(
        _head(f"{code} {reason}", Content_Length=4, Retry_After=retry, Content_Range=span) + b"none"
    )


def _redirect(handler: _Handler, chance: random.Random) -> None:
    target = chance.choice((
        "ftp://127.0.0.1/x", "file:///etc/passwd", "//", "http://[::1", "http://127.0.0.1:99999/",
        "javascript:x", handler.path, "data:,x", "\x1b[31m", "http://127.0.0.1:1/x", "a" * 3000,
        "gopher://x", "http:///", "https://127.0.0.1:1/x",
    ))  # fmt: skip
    handler.raw(
        _head(
            f"{chance.choice((301, 302, 303, 307, 308))} Found", Location=target, Content_Length=0
        )
    )


def _wrong_bytes(handler: _Handler, chance: random.Random) -> None:
    body = chance.randbytes(len(BODY))
    handler.raw(_head("200 OK", Content_Length=len(body), ETag='"a"') + body)


STEPS: tuple[Step, ...] = (
    _whole, _ranged, _cut, _wrong_length, _endless, _endless_chunks, _bad_chunks, _slow, _slow_head,
    _long_head, _garbage, _reset, _status, _status, _redirect, _redirect, _wrong_bytes,
)  # fmt: skip
_running: dict[int, _Server] = {}


def _server() -> _Server:
    """Return the server of this process; a fork has no threads of its parent."""
    import os

    if os.getpid() not in _running:
        server = _Server(("127.0.0.1", 0), _Handler)
        threading.Thread(target=partial(server.serve_forever, 0.01), daemon=True).start()
        _running[os.getpid()] = server
    return _running[os.getpid()]


def _attack(prepared: None, case: Case) -> str:
    chance = case.random
    if case.number % 5:
        text = f"http://example.org:80/{chance.choice(NASTY_TEXTS)}"
        check_url(mutated_text(text, chance).decode("utf-8", "replace"))
        return "accepted"
    server = _server()
    server.chance = chance
    server.script = [chance.choice(STEPS) for _ in range(chance.choice((1, 2, 3, 4)))]
    sha256 = chance.choice((SHA256, SHA256, None))
    begin = time.monotonic()
    try:
        path = fetch(
            f"http://127.0.0.1:{server.server_port}/a/own.npz",
            case.folder,
            sha256=sha256,
            policy=POLICY,
        )
    except (InputError, SetupError) as error:
        _check_refusal(case.folder, error, time.monotonic() - begin)
        return "refused"
    if sha256 and path.read_bytes() != BODY:
        raise Failure("other bytes than the published ones were accepted")
    if path.stat().st_size > LIMIT:
        raise Failure(f"{path.stat().st_size} bytes were accepted, {LIMIT} are allowed")
    return "accepted"


def _check_refusal(folder: Path, error: Exception, seconds: float) -> None:
    if (folder / "own.npz").exists():
        raise Failure(f"a refused file was left: {error}")
    large = [path.name for path in folder.iterdir() if path.stat().st_size > LIMIT + 65536]
    if large:
        raise Failure(f"{large[0]} is larger than the limit")
    if seconds > 2 * POLICY.deadline + SLACK:
        raise Failure(f"took {seconds:.0f} seconds: {error}")
    if fault := fault_of(error):
        raise Failure(fault)


def _prepare(folder: Path) -> None:
    return None


GROUP = Group("downloads", 1.0, _prepare, _attack)
