"""The C++ compiler, the clear line where there is none, and where compiled code is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bihm_repro.errors import SetupError

__all__ = ["cache_folder", "find_compiler", "compiler_version", "require_compiler"]

ALLOW_WITHOUT = "BIHM_ALLOW_NO_COMPILER"


def cache_folder(engine: str) -> Path:
    """Where compiled code is kept: the user's cache folder, shared by all processes."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bihm-repro" / engine


def find_compiler() -> str | None:
    """Path of g++ (or of what ``CXX`` names), or None."""
    return shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")


def compiler_version(path: str) -> str:
    """First line of what the compiler says of itself."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "unknown version"


def require_compiler() -> str:
    """The compiler's path; '' where there is none and the user has allowed that."""
    path = find_compiler()
    if path is None and os.environ.get(ALLOW_WITHOUT) != "1":
        raise SetupError(
            "no C++ compiler found: install g++ (Debian, Ubuntu: apt-get install g++; conda: "
            f"conda install gxx), or set {ALLOW_WITHOUT}=1 to run without, many times slower")
    return path or ""
