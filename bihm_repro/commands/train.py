"""``bihm train``: from a recipe to a trained and evaluated run folder, resumable at any moment."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bihm_repro.recipe import Recipe
    from bihm_repro.run_directory import RunDirectory
    from bihm_repro.training.budget import Budget

HELP = "train a recipe; goes on by itself where its run folder holds an unfinished run"

__all__ = ["HELP", "add_arguments", "run", "run_name"]

INTERRUPTIONS = ("interrupted", "asked to end")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("recipe", help="path of a recipe, or its name in run_exps/")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=VALUE", dest="overrides",
                        help="change a setting, such as model.layers=[200,100]; may be repeated")
    parser.add_argument("--out", metavar="DIR", help="the run folder (results/<recipe>)")
    parser.add_argument("--budget", metavar="TIME",
                        help="spend about this long in all, evaluation included: 10m, 1.5h, 90s")
    parser.add_argument("--pause-after", metavar="TIME",
                        help="pause after this long, to go on exactly there later")
    parser.add_argument("--fresh", action="store_true",
                        help="start anew; what was in the folder moves to .replaced/ beside it")
    parser.add_argument("--no-evaluate", action="store_true", help="do not evaluate at the end")
    parser.add_argument("--data", default="data", metavar="DIR", help="the folder of the data sets")
    parser.add_argument("--threads", type=int, help="threads (all cores)")
    parser.add_argument("--engine", choices=("theano", "pytensor"), help="the symbolic engine")
    parser.add_argument("--device", help="cpu; with pytensor also jax-cpu or gpu")
    parser.add_argument("--tensorboard", metavar="DIR", help="also write a TensorBoard log")


def run(args: argparse.Namespace) -> int:
    """Train, then evaluate; 130 where training was interrupted."""
    from bihm_repro.engine.choice import choose
    from bihm_repro.recipe import Recipe, find_recipe
    from bihm_repro.run_directory import RunDirectory
    from bihm_repro.training.budget import Budget, parse_duration

    budget = Budget(args.budget and parse_duration(args.budget))
    choose(args.engine, args.device, args.threads)
    path = find_recipe(args.recipe)
    recipe = Recipe.load(path, args.overrides)
    folder = RunDirectory(args.out or Path("results") / run_name(path))
    with folder.lock():
        if args.fresh and (moved := folder.move_aside()):
            print(f"{folder.path}: the run that was here is now in {moved}")
        folder.claim(recipe)
        pause = _train(recipe, folder, args, budget)
        if pause in INTERRUPTIONS:
            return 130
        if not args.no_evaluate:
            _evaluate(folder, args, budget)
    return 0


def run_name(recipe_path: Path) -> str:
    """Return the name of a recipe's run folder: ``rws-mnist`` for run_exps/rws/mnist.toml."""
    parts = recipe_path.with_suffix("").parts
    if "run_exps" in parts:
        start = len(parts) - parts[::-1].index("run_exps")
        return "-".join(parts[start:])
    return parts[-1]


def _train(recipe: Recipe, folder: RunDirectory, args: argparse.Namespace,
           budget: Budget) -> str:
    """Run the phases that are left; returns why training paused, or nothing."""
    from bihm_repro.datasets.load import load_dataset

    dataset = load_dataset(recipe.dataset, args.data)
    status = folder.read_status()
    if status.get("finished") and status.get("data_fingerprint") == dataset.fingerprint:
        print(f"{folder.path}: training is finished for this recipe and these data "
              f"({status['updates']} updates); start anew with --fresh")
        return ""
    from bihm_repro.models.build import build_model
    from bihm_repro.training.budget import parse_duration
    from bihm_repro.training.session import Options, TrainingData, train

    model = build_model(recipe.model, dataset.dim, recipe.seed)
    data = TrainingData(dataset.splits["train"], dataset.splits["valid"], dataset.splits["test"],
                        dataset.fingerprint, dataset.grey)
    options = Options(budget=budget.for_training, tensorboard=args.tensorboard,
                      pause_after=args.pause_after and parse_duration(args.pause_after))
    log = train(model, recipe, data, folder, options)
    if log.pause:
        print(f"paused ({log.pause}) at update {log.status.updates}, all is saved in "
              f"{folder.path}; go on with: {_command_to_go_on(args)}", flush=True)
    return log.pause


def _command_to_go_on(args: argparse.Namespace) -> str:
    words = ["bihm", "train", args.recipe]
    for override in args.overrides:
        words += ["--set", override]
    for option in ("out", "threads", "engine", "device"):
        value = getattr(args, option)
        words += [f"--{option}", str(value)] if value is not None else []
    words += ["--data", args.data] if args.data != "data" else []
    return shlex.join(words)


def _evaluate(folder: RunDirectory, args: argparse.Namespace, budget: Budget) -> None:
    from bihm_repro.estimators.evaluate import evaluate_run

    fingerprint = folder.model_fingerprint()
    evaluation = folder.read_evaluation()
    if evaluation and evaluation.get("model_fingerprint") == fingerprint:
        print(f"{folder.path}: evaluation.json stands for this model")
        return
    evaluate_run(folder)
