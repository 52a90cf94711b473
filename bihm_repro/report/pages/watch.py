"""A page on runs in progress, which a browser loads again by itself while it is rewritten."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bihm_repro import __version__
from bihm_repro.errors import InputError
from bihm_repro.report.methods import method_of
from bihm_repro.report.pages import data_url, render
from bihm_repro.report.pages.gallery import curve_png, log_table
from bihm_repro.report.tables.runs import logged_units, training_state
from bihm_repro.runs.reader import Run, read_run

__all__ = ["build_watch"]


def build_watch(paths: Sequence[str | Path], seconds: int) -> tuple[str, bool]:
    """Return the page on the run folders ``paths``, and whether all their training has ended.

    A folder that cannot be read, for instance before its first epoch, is named with the reason.
    """
    shown, complaints = [], []
    for path in paths:
        try:
            shown.append(_progress(read_run(path)))
        except (InputError, OSError) as error:
            complaints.append(str(error))
    ended = not complaints and all(run["ended"] for run in shown)
    page = render(
        "watch.html",
        title=", ".join(run["name"] for run in shown) or "No run yet",
        runs=shown,
        complaints=complaints,
        refresh=None if ended else seconds,
        written=time.strftime("%Y-%m-%d %H:%M:%S"),
        version=__version__,
    )
    return page, ended


def _progress(run: Run) -> dict[str, Any]:
    status, log, curve = run.status, run.log, curve_png(run)
    best, last = status.get("best_valid"), log.iloc[-1] if len(log) else {}
    rows = {
        "training": training_state(run),
        "epochs": _shown(status.get("epochs", len(log) or None), ",.0f"),
        "updates": _shown(status.get("updates", last.get("updates")), ",.0f"),
        "time": _duration(status.get("seconds", last.get("seconds"))),
        "updates per second": _rate(log),
        "learning rate, K": ", ".join(
            f"{last[name]:g}" for name in ("learning_rate", "samples") if name in last
        ),
        "validation log p, last": _shown(last.get("valid_log_p")),
        "validation log p, best": best and f"{_shown(best)} (epoch {status.get('best_epoch')})",
        "training log p, last": _shown(last.get("train_log_p")),
        "active units": ", ".join(map(str, logged_units(log))),
    }
    return {
        "name": run.name,
        "remark": f"{method_of(run)} on {run.dataset}, layers {', '.join(map(str, run.layers))}",
        "rows": {name: value for name, value in rows.items() if value},
        "curve": curve and data_url(curve),
        "log": log_table(log),
        "ended": bool(status.get("finished")),
    }


def _shown(value: Any, form: str = ".2f") -> str:
    return "" if value is None or value != value else format(float(value), form)


def _duration(seconds: Any) -> str:
    if seconds is None:
        return ""
    minutes = int(float(seconds) // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _rate(log: Any) -> str:
    """Updates per second over the last ten epochs."""
    if len(log) < 2 or "updates" not in log or "seconds" not in log:
        return ""
    late = log.tail(10)
    updates, seconds = (late[name].iloc[-1] - late[name].iloc[0] for name in ("updates", "seconds"))
    return f"{updates / seconds:.1f}" if seconds > 0 else ""
