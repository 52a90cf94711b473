"""Finds a BLAS library to link with: the user's, the OpenBLAS bundled with scipy, the system's."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Blas", "find_blas"]


# scipy 1.13 and later put this before every name of the OpenBLAS that they bundle.
_BUNDLE_PREFIX = "scipy_"
_NAMES = [
    f"{kind}{routine}_"
    for kind in "sdcz"
    for routine in ("gemm", "gemv", "ger", "dot", "axpy", "copy", "scal", "nrm2")
]
_NAMES += ["openblas_set_num_threads", "openblas_get_num_threads"]


@dataclass(frozen=True)
class Blas:
    """A BLAS library with Fortran's ``sgemm_``."""

    library: str  # file name for ``-l:`` or, where a folder is not known, for ``-l``
    folder: str | None
    origin: str  # how it was found
    prefix: str = ""  # of ``sgemm_`` and all other names in the library

    @property
    def defines(self) -> list[str]:
        """Compiler flags that rename ``sgemm_`` and the others to the library's names."""
        return [f"-D{name}={self.prefix}{name}" for name in _NAMES] if self.prefix else []

    @property
    def flags(self) -> str:
        """The linker and compiler flags for the engine's setting ``blas__ldflags``."""
        if self.folder is None:
            return f"-l{self.library}"
        return " ".join(
            [f"-L{self.folder} -l:{self.library} -Wl,-rpath,{self.folder}", *self.defines]
        )

    @property
    def path(self) -> str | None:
        """The library's file, or None where only its name is known."""
        return None if self.folder is None else str(Path(self.folder) / self.library)


def _has_sgemm(path: Path, prefix: str = "") -> bool:
    try:
        return hasattr(ctypes.CDLL(str(path)), f"{prefix}sgemm_")
    except OSError:
        return False


def _beside_scipy() -> Blas | None:
    spec = importlib.util.find_spec("scipy")
    if spec is None or spec.origin is None:
        return None
    import scipy.linalg  # noqa: F401 (loads the libraries that the bundled BLAS itself needs)

    for libs in ("scipy.libs", "scipy/.dylibs"):
        folder = Path(spec.origin).parent.parent / libs
        for path in sorted(folder.glob("lib*openblas*")):
            for prefix in ("", _BUNDLE_PREFIX):
                if _has_sgemm(path, prefix):
                    return Blas(path.name, str(folder), "bundled with scipy", prefix)
    return None


def _in_environment() -> Blas | None:
    folder = Path(sys.prefix) / "lib"
    for name in ("libopenblas.so", "libblas.so", "libopenblas.dylib", "libblas.dylib"):
        path = folder / name
        if path.exists() and _has_sgemm(path):
            return Blas(name, str(folder), "the Python environment's")
    return None


def _of_system() -> Blas | None:
    import ctypes.util

    for name in ("openblas", "blas"):
        found = ctypes.util.find_library(name)
        if found and _has_sgemm(Path(found)):
            return Blas(name, None, "the system's")
    return None


def _of_user() -> Blas | None:
    """What the user's own ``THEANO_FLAGS`` or ``PYTENSOR_FLAGS`` name."""
    flags = os.environ.get("THEANO_FLAGS", "") + "," + os.environ.get("PYTENSOR_FLAGS", "")
    match = re.search(r"blas__ldflags=((?:\\,|[^,])*)", flags)
    if match is None:
        return None
    words = match.group(1).replace("\\,", ",").split()
    folder = next((word[2:] for word in words if word.startswith("-L")), None)
    library = next((word[2:].lstrip(":") for word in words if word.startswith("-l")), None)
    if library is None:
        return None
    if folder is not None and not library.startswith("lib"):
        library = f"lib{library}.so"
    return Blas(library, folder, "named by the user's flags")


def find_blas() -> Blas | None:
    """Return the first found: the user's flags, scipy's bundle, the environment, the system."""
    return _of_user() or _beside_scipy() or _in_environment() or _of_system()
