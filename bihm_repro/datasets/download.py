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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bihm_repro.errors import SetupError
from bihm_repro.files import write_text
from bihm_repro.progress import progress

__all__ = ["Policy", "Unreachable", "check_sha256", "fetch"]

_BLOCK = 1 << 16
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class Unreachable(SetupError):
    """The host did not answer at all: its other files need not be tried."""


class WrongBytes(SetupError):
    """A complete file with another checksum than the published one."""


class _Again(Exception):
    """This try failed in a way that another may not."""


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
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)


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


def _receive(answer: Any, part: _Part, name: str) -> None:
    """Append the body of ``answer`` to ``part``; raise :class:`_Again` where it is cut short."""
    total = _total_of(answer, part)
    with progress(total=total, desc=name, unit="B", unit_scale=True) as bar, \
            open(part.path, "ab") as handle:
        bar.update(handle.tell())
        for block in iter(lambda: answer.read(_BLOCK), b""):
            handle.write(block)
            bar.update(len(block))
        handle.flush()
        os.fsync(handle.fileno())
    if total is not None and part.size != total:
        if part.size > total:
            part.discard()
        raise _Again(f"the connection was cut after {part.size} of {total} bytes")


def _try_once(url: str, part: _Part, timeout: float) -> None:
    """Fetch what is missing of ``url``; :class:`_Again` where another try may help."""
    try:
        with _open(url, part, timeout) as answer:
            _receive(answer, part, url.rpartition("/")[2])
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            part.discard()
            raise _Again("the server no longer has the part that was asked for") from error
        if error.code in _BUSY:
            raise _Again(f"HTTP {error.code} {error.reason}") from error
        raise SetupError(f"{url}: HTTP {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, (socket.gaierror, ConnectionRefusedError)):
            raise Unreachable(f"{url}: no connection ({error.reason})") from error
        raise _Again(f"no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(
                error, (ConnectionError, socket.timeout)):
            raise
        raise _Again(f"the connection broke ({error or type(error).__name__})") from error


def _complete(url: str, part: _Part, policy: Policy) -> None:
    """Try until ``part`` is whole or the policy's patience ends."""
    pause, reasons = policy.pause, []
    for number in range(policy.tries):
        if number:
            policy.sleep(min(pause, policy.longest_pause))
            pause *= 2
        try:
            return _try_once(url, part, policy.timeout)
        except _Again as error:
            reasons.append(str(error))
    message = f"{url}: given up after {policy.tries} tries ({reasons[-1]})"
    if all(reason.startswith("no connection") for reason in reasons):
        raise Unreachable(message)
    raise SetupError(message)


def fetch(url: str, folder: Path, *, sha256: str | None = None,
          policy: Policy | None = None) -> Path:
    """Download ``url`` into ``folder`` under its own name and return the path.

    What an earlier, interrupted download left is continued. A file with the wrong checksum is
    fetched once more from the beginning, then refused and removed.
    """
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"{url}: only http and https addresses can be fetched")
    folder.mkdir(parents=True, exist_ok=True)
    name = url.rpartition("/")[2]
    part = _Part(folder / f".{name}.part")
    for last in (False, True):
        _complete(url, part, policy or Policy())
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
