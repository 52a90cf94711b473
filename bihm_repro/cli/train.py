"""``bihm train``: from a recipe to a trained and evaluated run folder, resumable at any moment."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.errors import InputError

if TYPE_CHECKING:
    from bihm_repro.datasets.dataset import Dataset
    from bihm_repro.recipes.recipe import Recipe
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.training.budget import Budget

HELP = "train a recipe; goes on by itself where its run folder holds an unfinished run"

__all__ = ["HELP", "add_arguments", "evaluation_line", "evaluation_stands", "run", "run_name"]

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
    parser.add_argument("--extend", action="store_true",
                        help="go on by the recipe as it is now; it may differ in what lies ahead: "
                             "max_epochs and patience of the phase at hand, and later phases")
    parser.add_argument("--no-evaluate", action="store_true", help="do not evaluate at the end")
    parser.add_argument("--data", default="data", metavar="DIR", help="the folder of the data sets")
    parser.add_argument("--threads", type=int, help="threads (all cores)")
    parser.add_argument("--engine", choices=("theano", "pytensor"), help="the symbolic engine")
    parser.add_argument("--device", help="cpu; with pytensor also jax-cpu or gpu")
    parser.add_argument("--tensorboard", metavar="DIR", help="also write a TensorBoard log")


def run(args: argparse.Namespace) -> int:
    """Train, then evaluate; 130 where training was interrupted."""
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.engine.choice import choose
    from bihm_repro.recipes.recipe import Recipe, find_recipe
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.training.budget import Budget, parse_duration

    budget = Budget(args.budget and parse_duration(args.budget))
    pause_after = args.pause_after and parse_duration(args.pause_after)
    if args.out is not None and not args.out.strip():
        raise InputError(f"--out {args.out!r}: give the name of a folder")
    choose(args.engine, args.device, args.threads)
    path = find_recipe(args.recipe)
    recipe = Recipe.load(path, args.overrides)
    dataset = load_dataset(recipe.dataset, args.data)
    folder = RunDirectory(args.out or Path("results") / run_name(path))
    with folder.lock():
        if args.fresh and (moved := folder.move_aside()):
            print(f"{folder.path}: the run that was here is now in {moved}")
        new = not folder.exists
        folder.claim(recipe, args.extend)
        try:
            pause = _train(recipe, folder, dataset, args, budget, pause_after)
        except (InputError, MemoryError):
            if new:
                folder.discard_claim()
            raise
        if pause in INTERRUPTIONS:
            return 130
        if not args.no_evaluate:
            _evaluate(folder, dataset, budget)
    return 0


def run_name(recipe_path: Path) -> str:
    """Return the name of a recipe's run folder: ``rws-mnist`` for run_exps/rws/mnist.toml."""
    parts = recipe_path.with_suffix("").parts
    if "run_exps" in parts:
        start = len(parts) - parts[::-1].index("run_exps")
        return "-".join(parts[start:])
    return parts[-1]


def _train(recipe: Recipe, folder: RunDirectory, dataset: Dataset, args: argparse.Namespace,
           budget: Budget, pause_after: float | None) -> str:
    """Run the phases that are left; returns why training paused, or nothing."""
    folder.check_data(dataset.fingerprint)
    status = folder.read_status()
    if status.get("finished"):
        print(f"{folder.path}: training is finished for this recipe and these data "
              f"({status['updates']} updates); start anew with --fresh")
        return ""
    from bihm_repro.models.build import build_model
    from bihm_repro.training.session import Options, TrainingData, train

    model = build_model(recipe.model, dataset.dim, recipe.seed)
    data = TrainingData(dataset.splits["train"], dataset.splits["valid"], dataset.splits["test"],
                        dataset.fingerprint, dataset.grey)
    options = Options(budget=budget.for_training, tensorboard=args.tensorboard,
                      pause_after=pause_after)
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


def _evaluate(folder: RunDirectory, dataset: Dataset, budget: Budget) -> None:
    """Evaluate the best model on the test set, in what is left of a budget."""
    if not folder.file("model.npz").is_file():
        print(f"{folder.path}: no epoch is over yet, so there is no model to evaluate")
        return
    settings = folder.recipe.evaluation
    if evaluation_stands(folder, dataset, in_full=budget.seconds is None):
        _note_progress(folder)
        print(f"{folder.path}: evaluation.json stands for this model and these data")
        return
    from bihm_repro.estimators.evaluate import evaluate_run, stored_model

    arguments: dict[str, Any] = {}
    if budget.for_evaluation is not None:
        from bihm_repro.training.budget import fitted_evaluation
        from bihm_repro.training.figures import samples_per_second

        test = dataset.splits["test"]
        speed = samples_per_second(stored_model(folder), test)
        arguments = fitted_evaluation(settings, len(test), speed, budget.for_evaluation)
    print(evaluation_line(evaluate_run(folder, dataset=dataset, **arguments)), flush=True)


def _note_progress(folder: RunDirectory) -> None:
    """Bring the progress in evaluation.json up to date: training that brought no better model."""
    evaluation, status = folder.read_evaluation() or {}, folder.read_status()
    progress = {name: status[name] for name in ("updates", "finished") if name in status}
    if any(evaluation.get(name) != value for name, value in progress.items()):
        folder.write_evaluation({**evaluation, **progress})


def evaluation_stands(folder: RunDirectory, dataset: Dataset, in_full: bool = True) -> bool:
    """Whether evaluation.json is of the folder's model and the data, and all the recipe asks."""
    evaluation, settings = folder.read_evaluation(), folder.recipe.evaluation
    if (not evaluation or evaluation.get("model_fingerprint") != folder.model_fingerprint()
            or evaluation.get("data_fingerprint") != dataset.fingerprint):
        return False
    z_samples = evaluation.get("log_z2", {}).get("samples", settings.z_samples)
    complete = (evaluation["n_examples"] == len(dataset.splits["test"])
                and z_samples >= settings.z_samples
                and {str(k) for k in settings.samples} <= set(evaluation["samples"]))
    return complete or not in_full


def evaluation_line(evaluation: dict[str, Any]) -> str:
    """Say the main figures of an evaluation on one line."""
    most = max(evaluation["samples"], key=int)
    parts = [f"{evaluation['dataset']} {evaluation['split']}, {evaluation['n_examples']} examples"]
    for name, title in (("log_p", "-log p"), ("log_p_star", "-log p*")):
        figure = evaluation["samples"][most].get(name)
        if figure:
            parts.append(f"{title} {-figure['value']:.3f} +- {figure['standard_error']:.3f} "
                         f"(K = {most})")
    if "log_z2" in evaluation:
        figure = evaluation["log_z2"]
        parts.append(f"2 log Z {figure['value']:.3f} +- {figure['standard_error']:.3f}")
    return "; ".join(parts)
