"""`python -m benchmarks.time_to NAME=RUN ...`: updates and seconds until a validation log p.

Read from the logs of training runs, with the number of samples K of the log, and written to
`results/bench.json` under `"time_to"`, where the entries of other names are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from benchmarks.contenders import ROOT
from bihm_repro.files import write_json
from bihm_repro.runs.layout import RunDirectory

__all__ = ["main", "time_to"]

TARGET = 95.0


def time_to(log: pd.DataFrame, target: float = TARGET) -> dict | None:
    """Return updates, seconds and epoch of the first row whose -log p is at most `target`."""
    reached = log[-log["valid_log_p"] <= target]
    if reached.empty:
        return None
    row = reached.iloc[0]
    return {
        "target": target,
        "updates": int(row["updates"]),
        "epoch": int(row["epoch"]),
        "seconds": round(float(row["seconds"]), 1),
    }


def main(given: list | None = None) -> int:
    """Write the entries and print them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_to", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN", help="a name and a run folder")
    parser.add_argument("--target", type=float, default=TARGET, help="validation -log p")
    parser.add_argument("--note", default="", help="how quiet the machine was, threads")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of bench.json")
    arguments = parser.parse_args(given)
    path = arguments.out / "bench.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    entries = content.setdefault("time_to", {})
    for item in arguments.runs:
        name, equals, folder = item.partition("=")
        if not equals:
            parser.error(f"{item}: write it as NAME=RUN")
        found = time_to(RunDirectory(folder).read_log(), arguments.target)
        if found is None:
            print(f"{name}: {folder} has not reached {arguments.target}")
            continue
        entries[name] = {**found, "note": arguments.note}
        print(f"{name}: {found['updates']} updates, {found['seconds']} s")
    write_json(path, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
