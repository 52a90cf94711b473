"""Fetching one file over HTTP so that a bad line costs patience and nothing else.

A download grows in ``.NAME.part`` and takes its name only when it is whole and its checksum, where
one is published, is right. A cut connection is taken up again where it broke (a ``Range`` request,
guarded by ``If-Range`` so that two versions of a file are never glued together); a server that
cannot do that is asked for the whole file. Time-outs, cuts and the busy answers 408, 429 and 5xx
are tried again after growing pauses; a plain refusal such as 404 is not.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bihm_repro.errors import SetupError
from bihm_repro.files import write_text
from bihm_repro.progress import progress

try:
    import fcntl
except ImportError:  # Not on Windows: there a second process is not kept waiting.
    fcntl = None

__all__ = ["Policy", "Unreachable", "check_sha256", "fetch"]

_BLOCK = 1 << 16
_NO_CONNECTION = "no connection"
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class Unreachable(SetupError):
    """The host did not answer at all: its other files need not be tried."""


class WrongBytes(SetupError):
    """A complete file with another checksum than the published one."""


class _Again(Exception):
    """This try failed in a way that another may not."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        """``pause`` is how many seconds the server asks to wait."""
        super().__init__(reason)
        self.pause = pause


@dataclass(frozen=True)
class Policy:
    """How patient a download is."""

    tries: int = 5
    timeout: float = 30.0
    """Seconds without a byte before a try counts as failed."""
    pause: float = 1.0
    """Seconds before the second try; doubled before each further one."""
    longest_pause: float = 30.0
    sleep: Callable[[float], None] = time.sleep


def check_sha256(path: Path, expected: str) -> None:
    """Raise unless the file's SHA-256 is ``expected``."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise WrongBytes(f"{path}: its SHA-256 is {digest.hexdigest()[:12]}… where "
                         f"{expected[:12]}… is published")


@dataclass
class _Part:
    """The growing file, and the server's tag of the version it holds."""

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
    """Ask for ``url`` from where ``part`` ends; without a tag, from the beginning."""
    headers = {"User-Agent": "bihm-repro", "Accept-Encoding": "identity"}
    if part.size and part.tag:
        headers.update({"Range": f"bytes={part.size}-", "If-Range": part.tag})
    request = urllib.request.Request(url, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(url, part, error) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, (socket.gaierror, ConnectionRefusedError)):
            raise Unreachable(f"{url}: {_NO_CONNECTION} ({error.reason})") from error
        raise _Again(f"{_NO_CONNECTION} ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Again(f"the connection broke ({error or type(error).__name__})") from error


def _refusal(url: str, part: _Part, error: urllib.error.HTTPError) -> Exception:
    """Return what to raise for an answer that is not a file."""
    if error.code == 416:
        part.discard()
        return _Again("the server no longer has the part that was asked for")
    if error.code in _BUSY:
        wait = error.headers.get("Retry-After", "")
        return _Again(f"HTTP {error.code} {error.reason}", float(wait) if wait.isdigit() else 0.0)
    return SetupError(f"{url}: HTTP {error.code} {error.reason}")


def _tag_of(answer: Any) -> str:
    """Return a strong validator of the version served, or nothing."""
    tag = answer.headers.get("ETag", "")
    return "" if tag.startswith("W/") else tag or answer.headers.get("Last-Modified", "")


def _total_of(answer: Any, part: _Part) -> int | None:
    """Prepare ``part`` for the body of ``answer``; return the whole file's length where told."""
    if answer.status == 206:
        span, _, total = answer.headers.get("Content-Range", "").partition("/")
        if not span.startswith(f"bytes {part.size}-"):
            part.discard()
            raise _Again(f"the server answered with the wrong part ({span!r})")
        return int(total) if total.isdigit() else None
    part.start(_tag_of(answer))
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _blocks(answer: Any) -> Iterator[bytes]:
    """Yield the body; only failures of the line become :class:`_Again`, not those of the disk."""
    try:
        yield from iter(lambda: answer.read(_BLOCK), b"")
    except (OSError, http.client.HTTPException) as error:
        raise _Again(f"the connection broke ({error or type(error).__name__})") from error


def _receive(answer: Any, part: _Part, name: str) -> None:
    """Append the body of ``answer`` to ``part``; raise :class:`_Again` where it is cut short."""
    total = _total_of(answer, part)
    with progress(total=total, desc=name, unit="B", unit_scale=True) as bar, \
            open(part.path, "ab") as handle:
        bar.update(handle.tell())
        for block in _blocks(answer):
            handle.write(block)
            bar.update(len(block))
        handle.flush()
        os.fsync(handle.fileno())
    size = part.size
    if total is not None and size != total:
        if size > total:
            part.discard()
        raise _Again(f"the connection was cut after {size} of {total} bytes")


def _complete(url: str, part: _Part, policy: Policy) -> None:
    """Try until ``part`` is whole or the policy's patience ends."""
    reasons, wanted = [], 0.0
    for number in range(policy.tries):
        if number:
            pause = max(policy.pause * 2 ** (number - 1), wanted)
            policy.sleep(min(pause, policy.longest_pause))
        try:
            with _open(url, part, policy.timeout) as answer:
                return _receive(answer, part, url.rpartition("/")[2])
        except _Again as error:
            reasons.append(str(error))
            wanted = error.pause
        if len(reasons) == 2 and all(reason.startswith(_NO_CONNECTION) for reason in reasons):
            raise Unreachable(f"{url}: given up after 2 tries ({reasons[-1]})")
    raise SetupError(f"{url}: given up after {policy.tries} tries ({reasons[-1]})")


def fetch(url: str, folder: Path, *, sha256: str | None = None,
          policy: Policy | None = None) -> Path:
    """Download ``url`` into ``folder`` under its own name and return the path.

    What an earlier, interrupted download left is continued. A file with the wrong checksum is
    fetched once more from the beginning, then refused and removed.
    """
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"{url}: only http and https addresses can be fetched")
    with _alone_in(folder):
        return _fetch(url, folder, sha256, policy or Policy())


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into ``folder``: two must not grow one part."""
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
                raise SetupError(f"{url}: the bytes are not the published ones ({error})") \
                    from error
    os.replace(part.path, folder / name)
    part.discard()
    return folder / name
