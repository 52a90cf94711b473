"""``python -m tests.torture --time 10m``: runs the attack, or with ``--case`` one case of it."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time

# One thread: a fork keeps no others.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "agg")

MODULES = {
    "recipes": "recipes", "records": "records", "archives": "archives", "models": "models",
    "hdf5": "data_files", "imports": "imports", "downloads": "downloads", "sweeps": "sweeps",
    "pages": "pages", "blocks": "blocks", "states": "states", "crashes": "crashes",
    "kills": "kills",
}  # fmt: skip
"""The module of each group; those that import more come later, as forking them costs more."""
SHOWN = 20


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        return float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give a time such as 90s, 10m or 1h") from None


def main() -> int:
    """Run the groups; returns 1 where a case failed."""
    from tests.torture.harness import run_group

    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--time", type=_seconds, default=600.0, help="for all groups (10m)")
    parser.add_argument("--seed", default="0", help="of all cases (0)")
    parser.add_argument("--group", action="append", choices=list(MODULES), help="only this one")
    parser.add_argument("--case", type=int, help="only this case of the one group")
    args = parser.parse_args()
    if args.case is not None and len(args.group or ()) != 1:
        parser.error("--case needs one --group")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders are removed
    names = args.group or MODULES
    groups = [importlib.import_module(f"tests.torture.{MODULES[name]}").GROUP for name in names]
    end, cases, kills, failures = time.monotonic() + args.time, 0, 0, 0
    while groups:
        group = groups[0]
        left = max(0.0, end - time.monotonic())
        share = group.share / sum(item.share for item in groups)
        report = run_group(group, args.seed, left * share, args.case)
        groups.pop(0)
        cases, failures = cases + report.cases, failures + len(report.failures)
        kills += report.outcomes["kills"]
        details = ", ".join(f"{count} {name}" for name, count in sorted(report.outcomes.items()))
        print(f"{group.name}: {report.cases} cases in {report.seconds:.0f} s ({details}), "
              f"{len(report.failures)} failures", flush=True)  # fmt: skip
        repeat = f"python -m tests.torture --seed {args.seed} --group {group.name} --case"
        for number, text in report.failures[:SHOWN]:
            print(f"  {text}\n    repeat: {repeat} {number}", flush=True)
    print(f"seed {args.seed}: {cases} cases, {kills} kills, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
