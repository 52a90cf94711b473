"""``bihm sample``: samples of p, and of p* by Gibbs sampling (panels A and B of the MNIST figure).

Pictures show the probabilities of p(x|h_1), as the paper's do; npy and csv files hold the binary
samples, one row each.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.cli.arguments import add_shared, integer

if TYPE_CHECKING:
    import numpy as np

    from bihm_repro.ops.random_stream import RandomStream
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.gibbs import GibbsSettings
    from bihm_repro.samplers.helmholtz import HelmholtzSampler

HELP = "draw samples of p, and of p* by Gibbs sampling, as PNG and animated GIF, npy or csv"


FORMATS = ("png", "npy", "csv")
GIBBS_STEPS = [0, 10, 100]
MOST_FRAMES = 60
STRIP = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="run folder, such as results/mnist")
    add("--n", type=integer(1), default=100, help="number of samples, a chain each")
    add(
        "--gibbs",
        metavar="STEPS",
        help="Gibbs steps after which samples are written (default: 0,10,100 for a BiHM, else 0)",
    )
    add(
        "--format",
        help="by commas: png (a grid of pictures of the units' probabilities), npy and csv (binary "
        "samples, one row each); png by default, npy,csv where the data are no pictures",
    )
    add("--chains", type=integer(1), default=10, help="chains shown in chains.png and in the GIF")
    add(
        "--oversample",
        type=integer(1),
        default=1,
        help="samples of p that a chain's start is chosen from",
    )
    add("--gif", action="store_true", help="also an animated GIF of the chains")
    add("--out", metavar="DIR", help="folder to write to (RUN/pictures; npy, csv: RUN/samples)")
    add_gibbs_arguments(parser)


def add_gibbs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what sampling and inpainting share."""
    add = parser.add_argument
    add("--proposals", type=integer(1), default=20, help="proposals per layer and step")
    add("--inner", type=integer(1), default=1, help="samples of q(h|x) that weigh each proposed x")
    add(
        "--exact",
        action="store_true",
        help="make the current state a candidate beside the proposals: p* is then the limit for "
        "any number of proposals, but trained models seldom move; without it (the paper's "
        "procedure) chains move in every step, and their limit approaches p* as proposals grow",
    )
    add("--seed", type=integer(), default=0, help="seed of all random numbers")
    add("--shape", metavar="ROWSxCOLUMNS", help="picture shape (that of the data set)")
    add_shared(parser, "data")


def run(args: argparse.Namespace) -> int:
    """Draw the samples, write them and print the paths."""
    from bihm_repro.models.registry import Capability
    from bihm_repro.ops.random_stream import RandomStream
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import layered_sampler_of, sampler_of

    folder = RunDirectory(args.run_folder)
    steps = _steps(args.gibbs, folder)
    chains = max(steps) > 0 or args.oversample > 1
    sampler: Any
    if chains:
        sampler = layered_sampler_of(folder, Capability.GIBBS, "bihm sample --gibbs")
    else:
        sampler = sampler_of(folder)
    formats, shape = _formats(args, folder, sampler.data_dim)
    random = RandomStream(args.seed, "samples")
    if chains:
        wanted = {*steps, *evenly(max(steps), STRIP), *evenly(max(steps), MOST_FRAMES)}
        drawn = _drawn_by_chains(sampler, args, sorted(wanted), random)
    else:
        drawn = {0: sampler.sample(args.n, random)}
    written = []
    if shape is not None:
        written += _write_pictures(drawn, steps, shape, args, folder)
    samples = Path(args.out) if args.out else folder.path / "samples"
    for step in steps:
        rows = drawn[step][0]
        written += [_write_rows(samples / f"samples-{step}.{end}", rows) for end in formats]
    for path in written:
        print(path)
    return 0


def _formats(
    args: argparse.Namespace, folder: RunDirectory, data_dim: int
) -> tuple[list[str], tuple[int, int] | None]:
    """Return which files of rows are asked for, and the shape of pictures, None without them."""
    from bihm_repro.errors import InputError
    from bihm_repro.samplers.from_run import own_shape, picture_shape

    if args.format is None:
        pictures = args.shape or args.gif or own_shape(folder, args.data) is not None
        formats = ["png"] if pictures else ["npy", "csv"]
    else:
        formats = [part.strip().lower() for part in args.format.split(",")]
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"--format: {name!r}; allowed are {', '.join(FORMATS)}")
    if "png" not in formats:
        return formats, None
    rows = [name for name in formats if name != "png"]
    return rows, picture_shape(folder, args.shape, data_dim, args.data)


def _write_rows(path: Path, rows: np.ndarray) -> Path:
    """Write binary samples (n, data_dim) as the suffix of ``path`` says."""
    import numpy as np

    from bihm_repro.files import written_atomically

    rows = rows.astype(np.uint8)
    with written_atomically(path) as temporary, open(temporary, "wb") as file:
        if path.suffix == ".npy":
            np.save(file, rows)
        else:
            np.savetxt(file, rows, fmt="%d", delimiter=",")
    return path


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


def _drawn_by_chains(
    model: HelmholtzSampler, args: argparse.Namespace, wanted: Sequence[int], random: RandomStream
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return x and the means of p(x|h_1), (n, data_dim), after each wanted step of the chains."""
    from bihm_repro.progress import progress
    from bihm_repro.samplers.gibbs import gibbs_chain, resample_towards_p_star, start_chain

    settings = gibbs_settings(args)
    if args.oversample > 1:
        layers = resample_towards_p_star(model, args.n, args.oversample, random, settings.inner)
    else:
        layers = model.sample_p(args.n, random)
    chain, last = start_chain(model, layers, random), max(wanted)
    drawn = {0: (chain.x, model.expected_x(chain.layers))}
    states = gibbs_chain(model, chain, last, random, settings)
    for step, state in enumerate(progress(states, total=last, desc="Gibbs", unit="step"), start=1):
        if step in wanted:
            drawn[step] = state.x, model.expected_x(state.layers)
    return drawn


def _write_pictures(
    drawn: dict[int, tuple[np.ndarray, np.ndarray]],
    steps: Sequence[int],
    shape: tuple[int, int],
    args: argparse.Namespace,
    folder: RunDirectory,
) -> list[Path]:
    """Write grids, chains and the GIF; returns their paths."""
    import numpy as np

    from bihm_repro.samplers.images import BRIGHT, grid, write_gif, write_png

    bright, out = folder.recipe.dataset in BRIGHT, picture_folder(args, folder)
    means = {step: 1 - mean if bright else mean for step, (_, mean) in drawn.items()}
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
