"""Which tests execute which lines of the package, and how long each takes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any


class Survey:
    """A pytest plugin that notes, for each test, the lines of ``files`` that it executes.

    What a fixture executes counts for all tests of its file, as fixtures may be shared.
    """

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, set[tuple[str, int]]] = {}
        self._now: set[tuple[str, int]] = set()

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Trace from here on."""
        self._now = set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take the lines of the part of a test that is over."""
        sys.settrace(None)
        owner = report.nodeid.partition("::")[0] if report.when == "setup" else report.nodeid
        self.lines.setdefault(owner, set()).update(self._now)
        self._now = set()
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            raise SystemExit(f"{report.nodeid} fails without any mutation:\n{report.longreprtext}")
        sys.settrace(self._trace)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Trace no further."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self.files:
            return None
        self._now.add((name, frame.f_lineno))

        def local(frame: Any, event: str, argument: Any) -> Any:
            if event == "line":
                self._now.add((name, frame.f_lineno))
            return local

        return local

    def table(self, root: Path) -> dict[str, Any]:
        """Return the seconds by test, and by file the lines of each test, as JSON values."""
        found: dict[str, dict[str, list[int]]] = {}
        for test in self.seconds:
            shared = self.lines.get(test.partition("::")[0], set())
            for name, line in self.lines.get(test, set()) | shared:
                path = str(Path(name).relative_to(root))
                found.setdefault(path, {}).setdefault(test, []).append(line)
        return {"seconds": self.seconds, "lines": found}
