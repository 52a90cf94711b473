"""The C++ compiler, and the folder where compiled code is cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bihm_repro.errors import SetupError

__all__ = ["prepare_cache", "find_compiler", "compiler_version", "require_compiler"]

ALLOW_WITHOUT = "BIHM_ALLOW_NO_COMPILER"


def prepare_cache(engine: str) -> Path:
    """Create and return the user's cache folder of compiled code, shared by all processes."""
    given = os.environ.get("XDG_CACHE_HOME")
    base = Path(given) if given else Path.home() / ".cache"
    folder = base.absolute() / "bihm-repro" / engine
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        named = f"XDG_CACHE_HOME={given}" if given else f"the cache folder {base}"
        raise SetupError(
            f"{named} cannot be written to ({error.strerror}): set XDG_CACHE_HOME "
            "to a folder that can, for compiled code"
        ) from None


def find_compiler() -> str | None:
    """Return the path of g++ (or of what ``CXX`` names), or None."""
    return shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")


def compiler_version(path: str) -> str:
    """Return the first line of the compiler's ``--version``."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "unknown version"


def require_compiler() -> str:
    """Return the compiler's path; '' where there is none and the user has allowed that."""
    path = find_compiler()
    if path is None and os.environ.get(ALLOW_WITHOUT) != "1":
        raise SetupError(
            "no C++ compiler found: install g++ (Debian, Ubuntu: apt-get install g++; conda: "
            f"conda install gxx), or set {ALLOW_WITHOUT}=1 to run without, many times slower"
        )
    return path or ""
