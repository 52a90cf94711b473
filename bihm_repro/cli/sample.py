"""``bihm sample``: pictures of p, and of p* by Gibbs sampling (panels A and B of the MNIST figure).

Every picture shows the probabilities of p(x|h_1), as the paper's do, not binary samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from bihm_repro.ops.random_stream import RandomStream
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.gibbs import GibbsSettings
    from bihm_repro.samplers.helmholtz import HelmholtzSampler

HELP = "draw samples of p, and of p* by Gibbs sampling, as PNG and animated GIF"

__all__ = [
    "HELP",
    "add_arguments",
    "add_gibbs_arguments",
    "evenly",
    "gibbs_settings",
    "picture_folder",
    "run",
]

GIBBS_STEPS = [0, 10, 100]
MOST_FRAMES = 60
STRIP = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run_folder", metavar="RUN", help="run folder, such as results/mnist")
    parser.add_argument("--n", type=int, default=100, help="pictures in a grid, a chain each")
    parser.add_argument(
        "--gibbs",
        metavar="STEPS",
        help="Gibbs steps after which a grid is drawn, such as 0,10,100 (the "
        "default for a BiHM; 0, the samples of p, for the others)",
    )
    parser.add_argument(
        "--chains", type=int, default=10, help="chains shown over time in chains.png and in the GIF"
    )
    parser.add_argument(
        "--oversample",
        type=int,
        default=1,
        help="start each chain from the pick of this many samples of p, weighted towards p*",
    )
    parser.add_argument("--gif", action="store_true", help="also an animated GIF of the chains")
    add_gibbs_arguments(parser)


def add_gibbs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what sampling and inpainting share."""
    parser.add_argument("--proposals", type=int, default=20, help="proposals per layer and step")
    parser.add_argument(
        "--inner", type=int, default=1, help="samples of q(h|x) that weigh each proposed x"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="make the current state a candidate beside the proposals: the chain "
        "then has exactly p* as its limit for any number of proposals, but on "
        "trained models it stays where it is in most steps; without it (the "
        "paper's procedure) it moves in every step, and its limit approaches "
        "p* as the proposals grow in number",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument(
        "--shape", metavar="ROWSxCOLUMNS", help="picture shape (that of the data set)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder for the pictures (RUN/pictures)")
    parser.add_argument("--data", default="data", metavar="DIR", help="the folder of the data sets")


def run(args: argparse.Namespace) -> int:
    """Draw the samples, write the pictures and print their paths."""
    from bihm_repro.models.registry import Capability
    from bihm_repro.ops.random_stream import RandomStream
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import layered_sampler_of, picture_shape, sampler_of
    from bihm_repro.samplers.images import BRIGHT

    _check_counts(args)
    folder = RunDirectory(args.run_folder)
    steps = _steps(args.gibbs, folder)
    sampler: Any
    if max(steps) > 0 or args.oversample > 1:
        sampler = layered_sampler_of(folder, Capability.GIBBS, "bihm sample --gibbs")
    else:
        sampler = sampler_of(folder)
    shape = picture_shape(folder, args.shape, sampler.data_dim, args.data)
    random = RandomStream(args.seed, "samples")
    if max(steps) > 0 or args.oversample > 1:
        wanted = {*steps, *evenly(max(steps), STRIP), *evenly(max(steps), MOST_FRAMES)}
        means = _means_of_chains(sampler, args, sorted(wanted), random)
    else:
        means = {0: sampler.sample_means(args.n, random)}
    if folder.recipe.dataset in BRIGHT:
        means = {step: 1 - values for step, values in means.items()}
    for path in _write(means, steps, shape, args, picture_folder(args, folder)):
        print(path)
    return 0


def gibbs_settings(args: argparse.Namespace) -> GibbsSettings:
    """Return the settings that the arguments ask for."""
    from bihm_repro.samplers.gibbs import GibbsSettings

    return GibbsSettings(args.proposals, args.inner, keep_current=args.exact)


def picture_folder(args: argparse.Namespace, folder: RunDirectory) -> Path:
    """Return where the pictures go: ``--out`` or ``pictures`` in the run folder."""
    return Path(args.out) if args.out else folder.path / "pictures"


def evenly(last: int, most: int) -> list[int]:
    """Return at most ``most`` integers from 0 to ``last``, evenly spaced, both ends in.

    >>> evenly(100, 5), evenly(2, 5)
    ([0, 25, 50, 75, 100], [0, 1, 2])
    """
    count = min(last + 1, most)
    return sorted({round(i * last / max(1, count - 1)) for i in range(count)})


def _steps(text: str | None, folder: RunDirectory) -> list[int]:
    from bihm_repro.errors import InputError
    from bihm_repro.models.registry import Capability, kind

    if text is None:
        able = kind(folder.recipe.model.kind).can(Capability.GIBBS)
        return GIBBS_STEPS if able else [0]
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--gibbs: {text!r}; expected integers, such as 0,10,100")
    return sorted({int(part) for part in parts})


def _check_counts(args: argparse.Namespace) -> None:
    from bihm_repro.errors import InputError

    for name in ("n", "chains", "oversample"):
        if getattr(args, name) < 1:
            raise InputError(f"--{name}: {getattr(args, name)}; expected 1 or more")
    if args.seed < 0:
        raise InputError(f"--seed: {args.seed}; expected 0 or more")


def _means_of_chains(
    model: HelmholtzSampler, args: argparse.Namespace, wanted: Sequence[int], random: RandomStream
) -> dict[int, np.ndarray]:
    """Return the means of p(x|h_1), (n, data_dim), after each wanted step of Gibbs sampling."""
    from bihm_repro.progress import progress
    from bihm_repro.samplers.gibbs import gibbs_chain, resample_towards_p_star, start_chain

    settings = gibbs_settings(args)
    if args.oversample > 1:
        layers = resample_towards_p_star(model, args.n, args.oversample, random, settings.inner)
    else:
        layers = model.sample_p(args.n, random)
    chain, last = start_chain(model, layers, random), max(wanted)
    means = {0: model.expected_x(chain.layers)}
    states = gibbs_chain(model, chain, last, random, settings)
    for step, state in enumerate(progress(states, total=last, desc="Gibbs", unit="step"), start=1):
        if step in wanted:
            means[step] = model.expected_x(state.layers)
    return means


def _write(
    means: dict[int, np.ndarray],
    steps: Sequence[int],
    shape: tuple[int, int],
    args: argparse.Namespace,
    out: Path,
) -> list[Path]:
    """Write the pictures into ``out``; returns their paths."""
    import numpy as np

    from bihm_repro.samplers.images import grid, write_gif, write_png

    written = []
    for step in steps:
        written.append(out / f"samples-{step}.png")
        write_png(written[-1], grid(means[step], shape))
    shown, last = min(args.chains, args.n), max(steps)
    if last > 0:
        strip = np.stack([means[step][:shown] for step in evenly(last, STRIP)], axis=1)
        written.append(out / "chains.png")
        write_png(written[-1], grid(strip.reshape(-1, strip.shape[2]), shape, strip.shape[1]))
    if last > 0 and args.gif:
        written.append(out / "samples.gif")
        frames = [grid(means[step][:shown], shape) for step in evenly(last, MOST_FRAMES)]
        write_gif(written[-1], frames)
    return written
