"""``bihm train``: from a recipe to a trained and evaluated run folder, resumable at any moment."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.cli.arguments import add_shared, option_words
from bihm_repro.errors import InputError
from bihm_repro.progress import say

if TYPE_CHECKING:
    from bihm_repro.datasets.dataset import Dataset
    from bihm_repro.recipes.recipe import Recipe
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.training.budget import Budget

HELP = "train a recipe; resumes where its run folder holds an unfinished run"


INTERRUPTIONS = ("interrupted", "asked to end")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("recipe", help="path of a recipe, or its name in run_exps/")
    add(
        "--set",
        action="append",
        default=[],
        metavar="A.B=VALUE",
        dest="overrides",
        help="change a setting, such as model.layers=[200,100]; may be repeated",
    )
    add("--out", metavar="DIR", help="the run folder (results/<recipe>)")
    add("--budget", metavar="TIME", help="for training and evaluation together: 10m, 1.5h, 90s")
    add(
        "--pause-after",
        metavar="TIME",
        help="pause then, without evaluating; resumes exactly there",
    )
    add(
        "--from",
        metavar="RUN_OR_MODEL",
        dest="initial",
        help="start from the parameters of a run folder or a model.npz",
    )
    add(
        "--extend",
        action="store_true",
        help="resume with the recipe as it is now; it may differ in what is not trained yet: "
        "max_epochs and patience of the current phase, and later phases; a finished run may get "
        "further phases",
    )
    add_shared(parser, "fresh", "no-evaluate", "data", "threads", "engine", "device")
    add(
        "--devices",
        type=int,
        metavar="N",
        help="devices of this host to use, with --device jax-cpu or gpu (default: all)",
    )
    add(
        "--hosts",
        type=int,
        metavar="N",
        help="train one model on N hosts, each started with this command (default: "
        "1, or the tasks of Slurm or Open MPI)",
    )
    add("--host-id", type=int, metavar="I", help="this host's number, from 0")
    add("--coordinator", metavar="HOST:PORT", help="address of host 0, a free port")
    add("--tensorboard", metavar="DIR", help="also write a TensorBoard log")


def run(args: argparse.Namespace) -> int:
    """Train, then evaluate; 130 where training was interrupted."""
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.engine.choice import choose
    from bihm_repro.engine.parallel import choose_parallel, requested, several_hosts
    from bihm_repro.recipes.recipe import Recipe, find_recipe
    from bihm_repro.runs.initial import check_source, with_initial
    from bihm_repro.runs.layout import RunDirectory, run_name
    from bihm_repro.training.budget import Budget, parse_duration

    budget = Budget(args.budget and parse_duration(args.budget))
    pause_after = args.pause_after and parse_duration(args.pause_after)
    if args.out is not None and not args.out.strip():
        raise InputError(f"--out {args.out!r}: give the name of a folder")
    choose(args.engine, args.device, args.threads)
    choose_parallel(args.devices, args.hosts, args.host_id, args.coordinator)
    if several_hosts():
        import bihm_repro.engine.symbolic  # noqa: F401 (connects this host with the others)

    path = find_recipe(args.recipe)
    recipe = Recipe.load(path, args.overrides)
    dataset = load_dataset(recipe.dataset, args.data)
    if requested().host_id:
        return _follow(recipe, dataset, budget, pause_after)
    folder = RunDirectory(args.out or Path("results") / run_name(path))
    if args.initial is not None:
        check_source(args.initial, folder, args.fresh)
    if args.fresh and (moved := folder.move_aside()):
        say(f"{folder.path}: the run that was here is now in {moved}")
    with folder.lock():
        folder.repair()
        recipe = with_initial(recipe, args.initial, folder)
        with folder.claimed(recipe, args.extend):
            pause = _train(recipe, folder, dataset, args, budget, pause_after)
        if pause in INTERRUPTIONS:
            return 130
        if not args.no_evaluate and (not pause or budget.seconds is not None):
            _evaluate(folder, dataset, budget)
    return 0


def _follow(recipe: Recipe, dataset: Dataset, budget: Budget, pause_after: float | None) -> int:
    """Train with host 0, which has the run folder; 130 where training was interrupted."""
    from bihm_repro.models.build import build_model
    from bihm_repro.training.session import Options, TrainingData, train

    model = build_model(recipe.model, dataset.dim, recipe.seed)
    options = Options(budget=budget.for_training, pause_after=pause_after, quiet=True)
    log = train(model, recipe, TrainingData.of(dataset), None, options)
    return 130 if log.pause in INTERRUPTIONS else 0


def _train(
    recipe: Recipe,
    folder: RunDirectory,
    dataset: Dataset,
    args: argparse.Namespace,
    budget: Budget,
    pause_after: float | None,
) -> str:
    """Run the phases that are left; returns why training paused, or nothing."""
    folder.check_data(dataset.fingerprint)
    folder.reopen()
    status = folder.read_status()
    if status.get("finished"):
        say(
            f"{folder.path}: training is finished for this recipe and these data "
            f"({status.get('updates', 0)} updates); restart with --fresh"
        )
        return ""
    from bihm_repro.models.build import build_model
    from bihm_repro.runs.initial import set_initial
    from bihm_repro.training.session import Options, TrainingData, train

    model = build_model(recipe.model, dataset.dim, recipe.seed)
    if recipe.initial.fingerprint and not folder.has_state:
        set_initial(model, recipe)
    options = Options(
        budget=budget.for_training, tensorboard=args.tensorboard, pause_after=pause_after
    )
    log = train(model, recipe, TrainingData.of(dataset), folder, options)
    if log.pause or log.off_schedule:
        cut = "; the schedule that the budget cut short resumes uncut" if log.off_schedule else ""
        say(
            f"paused ({log.pause or 'the time budget is used up'}) at update {log.status.updates}, "
            f"all is saved in {folder.path}; resume with: {_command_to_resume(args)}{cut}"
        )
    return log.pause


def _command_to_resume(args: argparse.Namespace) -> str:
    words = ["bihm", "train", args.recipe]
    for override in args.overrides:
        words += ["--set", override]
    words += ["--from", args.initial] if args.initial is not None else []
    names = "out", "threads", "engine", "device", "devices", "hosts", "host-id", "coordinator"
    return shlex.join([*words, *option_words(args, *names, data="data")])


def _evaluate(folder: RunDirectory, dataset: Dataset, budget: Budget) -> None:
    """Evaluate the best model on the test set, in what is left of a budget."""
    from bihm_repro.runs.evaluation import answers, is_up_to_date

    if not folder.file("model.npz").is_file():
        say(f"{folder.path}: no epoch is over yet, so there is no model to evaluate")
        return
    settings, test = folder.recipe.evaluation, dataset.splits["test"]
    evaluation = folder.read_evaluation()
    if (
        evaluation
        and is_up_to_date(evaluation, folder.read_model().fingerprint, dataset.fingerprint)
        and (budget.seconds is not None or answers(evaluation, settings, len(test)))
    ):
        _record_progress(folder, evaluation)
        say(f"{folder.path}: evaluation.json is up to date for this model and these data")
        return
    from bihm_repro.estimators.evaluate import evaluate_run, stored_model

    arguments: dict[str, Any] = {}
    if budget.seconds is not None and budget.for_evaluation is not None:
        from bihm_repro.estimators.log_likelihood import samples_per_second
        from bihm_repro.training.budget import fitted_evaluation

        start = time.monotonic()
        speed = samples_per_second(stored_model(folder), test)
        # Log-likelihood, 2 log Z and effective sample size are compiled as this was.
        reserve = 3 * (time.monotonic() - start)
        seconds = max(budget.for_evaluation - reserve, 0.05 * budget.seconds)
        arguments = fitted_evaluation(settings, len(test), speed, seconds)
    say(evaluation_line(evaluate_run(folder, dataset=dataset, **arguments)))


def _record_progress(folder: RunDirectory, evaluation: dict[str, Any]) -> None:
    """Bring the progress in evaluation.json up to date: training that found no better model."""
    status = folder.read_status()
    progress: dict[str, Any] = {
        name: status[name] for name in ("updates", "finished") if name in status
    }
    if any(evaluation.get(name) != value for name, value in progress.items()):
        folder.write_evaluation({**evaluation, **progress})


def evaluation_line(evaluation: dict[str, Any]) -> str:
    """Return the main estimates of an evaluation on one line."""
    most = max(evaluation["samples"], key=int)
    parts = [f"{evaluation['dataset']} {evaluation['split']}, {evaluation['n_examples']} examples"]
    for name, title in (("log_p", "-log p"), ("log_p_star", "-log p*")):
        figure = evaluation["samples"][most].get(name)
        if figure:
            parts.append(
                f"{title} {-figure['value']:.3f} +- {figure['standard_error']:.3f} (K = {most})"
            )
    if "log_z2" in evaluation:
        figure = evaluation["log_z2"]
        parts.append(f"2 log Z {figure['value']:.3f} +- {figure['standard_error']:.3f}")
    return "; ".join(parts)
