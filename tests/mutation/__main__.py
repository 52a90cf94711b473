"""``python -m tests.mutation``: draw mutants and run the tests that execute the changed lines."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = {
    "estimators": ["tests/estimators"],
    "models": ["tests/models", "tests/cli/test_plugins.py"],
    "training": ["tests/training", "tests/runs/test_resume.py"],
    "runs": ["tests/runs", "tests/report/test_run_selection.py", "tests/api/test_storage.py"],
    "recipes": ["tests/recipes", "tests/cli/test_recipes_command.py"],
    "datasets": ["tests/datasets/test_readers.py", "tests/datasets/test_hdf5.py",
                 "tests/datasets/test_user_data.py", "tests/datasets/test_dataset.py"],
}  # fmt: skip
"""The tests of each folder of the package that is mutated."""
FILES = {"datasets": ("readers", "hdf5", "child", "tables", "user_data", "checks", "dataset")}
"""Where only some files of a folder are: here, the readers."""
SPARE_SECONDS, SECONDS = 15, 600
"""A mutant that takes so much more processor time, or so long, is noticed: its tests do not end."""
MOST_TEST_SECONDS = 240.0
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:timeout", "--no-header", "--tb=line"]


def files_of(folder: str) -> list[str]:
    """Return the source files of ``folder`` that are mutated."""
    paths = sorted((ROOT / "bihm_repro" / folder).rglob("*.py"))
    wanted = FILES.get(folder)
    return [str(p.relative_to(ROOT)) for p in paths if wanted is None or p.stem in wanted]


def make_copy(scratch: Path) -> None:
    """Copy what is changed and the tests to ``scratch``, link the rest, and go there."""
    for path in ROOT.iterdir():
        if path.name in ("bihm_repro", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", "torture")
            shutil.copytree(path, scratch / path.name, ignore=ignored)
        elif not path.name.startswith("."):
            (scratch / path.name).symlink_to(path)
    os.chdir(scratch)
    os.environ.update(PYTHONPATH=str(scratch), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    sys.path[:] = [str(scratch), *(item for item in sys.path if item not in ("", str(ROOT)))]


def preload() -> None:
    """Import what takes long and is not mutated; tests run in forks of this process."""
    for name in [item for item in sys.modules if item.partition(".")[0] in ("bihm_repro", "tests")]:
        del sys.modules[name]
    for name in ("pytest", "scipy.stats", "pandas", "h5py", "bihm_repro.bricks.nade",
                 "bihm_repro.bricks.darn", "bihm_repro.bricks.gaussian"):  # fmt: skip
        importlib.import_module(name)
    loaded = [name for name in sys.modules if name.split(".")[:1] == ["bihm_repro"]]
    for name in loaded:
        if name.split(".")[1:2] in [[folder] for folder in TESTS]:
            raise SystemExit(f"{name} is loaded before it is mutated")


def in_fork(work: Callable[[], int], log: Path, limit: int | None = None) -> int:
    """Return the exit status of ``work`` in a fork, or minus the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if limit:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                signal.alarm(SECONDS)
            status = work()
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def survey(folder: str, scratch: Path) -> dict[str, Any]:
    """Run the tests of ``folder`` once, unchanged; return which lines each executes."""
    found = scratch / "survey.json"

    def work() -> int:
        import pytest

        from tests.mutation.survey import Survey

        plugin = Survey({str(scratch / name) for name in files_of(folder)})
        status = pytest.main([*OPTIONS, *TESTS[folder]], plugins=[plugin])
        found.write_text(json.dumps(plugin.table(scratch)))
        return int(status)

    log = scratch / "survey.log"
    if in_fork(work, log) != 0:
        raise SystemExit(f"the tests of {folder} fail without any mutation:\n{log.read_text()}")
    return json.loads(found.read_text())


def chosen_tests(mutant: Mutant, file: str, table: dict[str, Any]) -> list[str]:
    """Return the tests that execute the line, quick ones first.

    Those of the file where it is executed on import, all where only other processes execute it.
    """
    tests, seconds = table["lines"].get(file, {}), table["seconds"]
    span = range(mutant.line, mutant.line + mutant.old.count("\n") + 1)
    found = [t for t, lines in tests.items() if not mutant.in_function or {*lines} & {*span}]
    found = sorted(found or seconds, key=lambda test: (seconds[test], test))
    total = list(itertools.accumulate(seconds[test] for test in found))
    return [test for test, sum_ in zip(found, total) if sum_ <= MOST_TEST_SECONDS] or found[:1]


def fate_of(mutant: Mutant, file: str, tests: list[str], seconds: float, scratch: Path) -> str:
    """Run ``tests`` (``seconds`` long) with ``mutant``; returns noticed or survived."""
    path, log = scratch / file, scratch / "mutant.log"
    unchanged = path.read_bytes()
    path.write_bytes(mutant.source)

    def run(names: list[str]) -> int:
        def work() -> int:
            import pytest

            return int(pytest.main([*OPTIONS, *names]))

        return in_fork(work, log, round(seconds) + SPARE_SECONDS)

    try:
        status = run(tests)
        if status in (4, 5):  # names of tests have changed with the mutation
            status = run(sorted({name.partition("::")[0] for name in tests}))
    finally:
        path.write_bytes(unchanged)
    return "survived" if status == 0 else "noticed"


def main() -> int:
    """Test a sample of the mutants of each folder; returns 1 where one survives unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=25, help="mutants of each folder (25)")
    parser.add_argument("--seed", default="0", help="of the sample (0)")
    parser.add_argument("--folder", action="append", choices=list(TESTS), help="only this one")
    parser.add_argument("--file", help="only this source file, all its mutants")
    parser.add_argument("--surveys", type=Path, help="a folder to keep and reuse surveys in")
    args = parser.parse_args()
    counts: Counter = Counter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy is removed
    scratch = Path(tempfile.mkdtemp(prefix="mutation-")).resolve()
    try:
        make_copy(scratch)
        preload()
        for folder in args.folder or TESTS:
            every = [
                (file, mutant)
                for file in files_of(folder)
                for mutant in mutants_of((scratch / file).read_bytes())
            ]
            chosen = random.Random(f"{args.seed}/{folder}").sample(
                every, min(args.count, len(every))
            )
            if args.file:
                chosen = [item for item in every if item[0] == args.file]
            own = _test(folder, chosen, scratch, args.surveys)
            print(f"{folder}: {len(chosen)} of {len(every)} mutants: {_text(own)}", flush=True)
            counts += own
    finally:
        os.chdir(ROOT)
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"seed {args.seed}: {sum(counts.values())} mutants: {_text(counts)}")
    return 1 if counts["survived"] else 0


def _test(
    folder: str, chosen: list[tuple[str, Mutant]], scratch: Path, surveys: Path | None
) -> Counter:
    kept = surveys / f"{folder}.json" if surveys else None
    if kept is not None and kept.exists():
        table = json.loads(kept.read_text())
    else:
        table = survey(folder, scratch)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(table))
    counts: Counter = Counter()
    for file, mutant in chosen:
        tests = chosen_tests(mutant, file, table)
        seconds = sum(table["seconds"][test] for test in tests)
        fate = fate_of(mutant, file, tests, seconds, scratch)
        if fate != "noticed" and (file, mutant.text, mutant.change) in EQUIVALENT:
            fate = "equivalent"
        counts[fate] += 1
        if fate == "survived":
            print(
                f"  {file}:{mutant.line}: {mutant.change}: {fate}, {len(tests)} tests", flush=True
            )
    return counts


def _text(counts: Counter) -> str:
    return ", ".join(f"{number} {fate}" for fate, number in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
