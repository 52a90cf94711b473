"""``bihm reproduce``: data, training, evaluation and table in one command.

A step whose result exists for the same recipe and data is skipped, and said to be. An existing
evaluation is checked: the stored model is evaluated again on some test examples, and the estimate
compared with the recorded one. Runs with a time budget have folders of their own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.cli.arguments import add_shared
from bihm_repro.errors import InputError, SetupError
from bihm_repro.progress import say

if TYPE_CHECKING:
    from bihm_repro.cluster.points import Point
    from bihm_repro.datasets.dataset import Dataset
    from bihm_repro.recipes.recipe import Recipe
    from bihm_repro.runs.layout import RunDirectory

HELP = "the whole chain for mnist, uci or single recipes: data, training, evaluation, table"


UCI = ("adult", "connect4", "dna", "mushrooms", "nips", "ocr_letters", "rcv1", "web")
STAND_INS = {"rcv1": "rcv1_surrogate"}
"""Recipes that replace one whose data are not available; the table marks them."""
CHECK_EXAMPLES = 300
CHECK_SAMPLES = 100
TOLERANCE = 4.0
"""Standard errors by which a second evaluation may differ from the first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("targets", nargs="+", metavar="TARGET", help="mnist, uci, or names of recipes in run_exps/")
    add("--budget", metavar="TIME", help="for all together: 10m, 1.5h; in RESULTS/<recipe>-budget")
    add("--jobs", type=int, default=1, metavar="N", help="runs at a time, which share the threads")
    add(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="evaluate stored models again (default: yes, but not for uci)",
    )
    add_shared(parser, "fresh", "mirror", "data", "results", "threads", "engine", "device")


def run(args: argparse.Namespace) -> int:
    """Run the chain; 0 where everything asked for is there in the end."""
    from bihm_repro.cluster.points import Point
    from bihm_repro.engine.choice import choose
    from bihm_repro.training.budget import parse_duration

    choose(args.engine, args.device, args.threads)
    if args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: at least 1 is needed")
    budget = parse_duration(args.budget) if args.budget else None
    names = list(
        dict.fromkeys(
            name for target in args.targets for name in (UCI if target == "uci" else (target,))
        )
    )
    to_train, agreed = [], True
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        folder, recipe = _folder_and_recipe(name, args)
        if not args.fresh and _is_evaluated(name, folder, recipe):
            agreed &= _check(name, folder, args)
        elif _obtain_data(name, recipe, args, alone=len(names) == 1) is not None:
            to_train.append(Point(name, folder.path))
        elif name in STAND_INS:
            waiting.insert(0, STAND_INS[name])
    status = _train(to_train, args, budget) if to_train else 0
    if status == 130:
        return status
    _print_tables(args, names)
    return status or (0 if agreed else 1)


def _train(points: list[Point], args: argparse.Namespace, budget: float | None) -> int:
    """Train ``args.jobs`` points at a time; returns 0, 130 if interrupted, or a failure's status.

    Each gets its share of the threads and of the time.
    """
    from bihm_repro.cli.sweep import train_points
    from bihm_repro.cluster.training import INTERRUPTED
    from bihm_repro.engine.threads import thread_count

    jobs = min(args.jobs, len(points))
    args.cluster = f"local:{jobs}" if jobs > 1 else None
    options = [] if budget is None else ["--budget", f"{budget * jobs / len(points):.0f}s"]
    outcomes = train_points(points, args, options, threads=max(1, thread_count() // jobs))
    statuses = [outcome.status for outcome in outcomes.values() if outcome.status]
    return INTERRUPTED if INTERRUPTED in statuses else next(iter(statuses), 0)


def _folder_and_recipe(name: str, args: argparse.Namespace) -> tuple[RunDirectory, Recipe]:
    from bihm_repro.recipes.recipe import Recipe, find_recipe
    from bihm_repro.runs.layout import RunDirectory, run_name

    path = find_recipe(name)
    folder = run_name(path) + ("-budget" if args.budget else "")
    return RunDirectory(Path(args.results) / folder), Recipe.load(path)


def _is_evaluated(name: str, folder: RunDirectory, recipe: Recipe) -> bool:
    """Whether the folder holds a model evaluated on test; says so, and how far it was trained."""
    evaluation = folder.read_evaluation() if folder.exists else None
    if not evaluation or not folder.file("model.npz").is_file():
        return False
    if evaluation.get("split") != "test" or (
        evaluation.get("model_fingerprint") != folder.read_model().fingerprint
    ):
        return False
    status = folder.read_status()
    trained = f"{status.get('updates', 0)} updates"
    if not status.get("finished"):
        trained += f", paused; resume with: bihm train {name} --out {folder.path}"
    say(f"{name}: training and evaluation skipped: {folder.path} is up to date ({trained})")
    differences = folder.recipe.differences(recipe)
    if differences:
        say(f"{name}: note: its recipe is not the current one ({'; '.join(differences[:3])})")
    return True


def _obtain_data(
    name: str, recipe: Recipe, args: argparse.Namespace, alone: bool = True
) -> Dataset | None:
    """Load the recipe's data, fetching them where needed; None where they are not available."""
    from bihm_repro.datasets.convert import convert
    from bihm_repro.datasets.dataset import load_dataset

    if recipe.dataset.endswith((".hdf5", ".h5")):
        return load_dataset(recipe.dataset, args.data)
    try:
        result = convert(
            recipe.dataset,
            args.data,
            mirror=args.mirror,
            report=lambda line: print(line, file=sys.stderr),
        )
    except (InputError, SetupError) as error:
        if alone:
            raise
        reason = " ".join(str(error).split()).partition(". ")[0]
        say(f"{name}: left out: {reason}; more with: bihm data {recipe.dataset}")
        return None
    said = "skipped, it is there" if result.reused else f"{result.dataset.exactness}"
    note = f"; {result.dataset.note}" if result.dataset.note else ""
    say(f"{name}: data {result.path}: {said}{note}")
    return result.dataset


def _check(name: str, folder: RunDirectory, args: argparse.Namespace) -> bool:
    """Evaluate the stored model on some examples; False where the estimates do not agree."""
    wanted = args.check if args.check is not None else args.targets != ["uci"]
    if not wanted:
        return True
    recorded = folder.read_evaluation() or {}
    dataset = _obtain_data(name, folder.recipe, args, alone=False)
    if dataset is None or recorded is None:
        return True
    if dataset.fingerprint != recorded.get("data_fingerprint"):
        say(
            f"{name}: not checked: the run is on other data than those found here "
            f"({dataset.exactness})"
        )
        return True
    from bihm_repro.estimators.evaluate import evaluate_run

    k = max((int(k) for k in recorded["samples"] if int(k) <= CHECK_SAMPLES), default=0)
    if not k:
        say(f"{name}: not checked: no estimate is recorded at K = {CHECK_SAMPLES} or below")
        return True
    now = evaluate_run(
        folder,
        samples=[k],
        z_samples=0,
        ess_samples=0,
        examples=CHECK_EXAMPLES,
        split=recorded["split"],
        seed=1,
        dataset=dataset,
        write=False,
    )
    line, agree = comparison(recorded["samples"][str(k)]["log_p"], now["samples"][str(k)]["log_p"])
    say(f"{name}: stored model on {now['n_examples']} examples, K = {k}: {line}")
    return agree


def comparison(recorded: dict[str, float], now: dict[str, float]) -> tuple[str, bool]:
    """Compare two estimates; returns a line on it and whether they agree."""
    error = (recorded["standard_error"] ** 2 + now["standard_error"] ** 2) ** 0.5
    agree = abs(recorded["value"] - now["value"]) <= TOLERANCE * error
    verdict = "agrees with" if agree else "DOES NOT AGREE with"
    return (
        f"-log p {-now['value']:.2f} +- {now['standard_error']:.2f} {verdict} the recorded "
        f"{-recorded['value']:.2f} +- {recorded['standard_error']:.2f}",
        agree,
    )


def _print_tables(args: argparse.Namespace, names: list[str]) -> None:
    from bihm_repro.report.tables import build_tables, write_tables
    from bihm_repro.report.tables.table import to_markdown
    from bihm_repro.runs.reader import read_runs

    groups = [
        group
        for group, wanted in (
            ("uci", any(name in UCI for name in names)),
            ("mnist", any("mnist" in name for name in names)),
        )
        if wanted
    ] or ["runs"]
    runs, complaints = read_runs(args.results)
    tables: list[Any] = build_tables(runs, groups)
    print("\n" + "\n".join(to_markdown(table) for table in tables))
    for line in complaints:
        say(line, file=sys.stderr)
    write_tables(tables, Path(args.results) / "tables")
