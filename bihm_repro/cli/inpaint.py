"""``bihm inpaint``: hidden parts of test pictures, filled by Gibbs sampling of p*.

As in the paper's inpainting figure, a row shows a random test example, what of it the chain sees
and independent fillings; hidden pixels are shown as the probabilities of p(x|h_1).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bihm_repro.cli.arguments import integer
from bihm_repro.cli.sample import (
    MOST_FRAMES,
    add_gibbs_arguments,
    evenly,
    gibbs_settings,
    picture_folder,
)

if TYPE_CHECKING:
    import numpy as np

HELP = "fill hidden parts of test pictures by Gibbs sampling of p*, as PNG and animated GIF"


HIDDEN = 0.5
"""Grey level of the pixels that the chain does not see."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="run folder, such as results/mnist")
    add(
        "--masks",
        default="left,top,block",
        help="what is hidden, by commas: left, right, top, bottom, block (a random "
        "rectangle), or picture files whose dark pixels are hidden",
    )
    add("--n", type=integer(1), default=8, help="test examples for each mask")
    add("--fillings", type=integer(1), default=3, help="independent fillings of each")
    add("--gibbs", type=integer(), default=100, metavar="STEPS", help="Gibbs steps")
    add("--gif", action="store_true", help="also an animated GIF for each mask")
    add("--out", metavar="DIR", help="folder for the pictures (RUN/pictures)")
    add_gibbs_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Inpaint, write the pictures and print their paths."""
    from pathlib import Path

    import numpy as np

    from bihm_repro.models.registry import Capability
    from bihm_repro.ops.random_stream import RandomStream
    from bihm_repro.progress import progress
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import layered_sampler_of, picture_shape, random_examples
    from bihm_repro.samplers.images import BRIGHT, grid, write_gif, write_png
    from bihm_repro.samplers.inpainting import inpainting_chain, known_pixels

    folder = RunDirectory(args.run_folder)
    model = layered_sampler_of(folder, Capability.INPAINTING, "bihm inpaint")
    shape = picture_shape(folder, args.shape, model.data_dim, args.data)
    random = RandomStream(args.seed, "inpainting")
    masks = [mask.strip() for mask in args.masks.split(",")]
    known = {mask: known_pixels(mask, shape, args.n, random) for mask in masks}
    images = random_examples(folder, args.n, random, model.data_dim, args.data)
    out, written = picture_folder(args, folder), []
    moments = evenly(args.gibbs, MOST_FRAMES) if args.gif else [args.gibbs]
    for mask in masks:
        many = np.repeat(images, args.fillings, axis=0)
        many_known = np.repeat(known[mask], args.fillings, axis=0)
        chain = inpainting_chain(model, many, many_known, args.gibbs, random, gibbs_settings(args))
        frames = []
        watched = progress(chain, total=args.gibbs + 1, desc=f"inpainting {mask}", unit="step")
        for step, state in enumerate(watched):
            if step in moments:
                filled = np.where(many_known, many, model.expected_x(state.layers))
                rows = _rows(images, known[mask], filled)
                rows = 1 - rows if folder.recipe.dataset in BRIGHT else rows
                frames.append(grid(rows, shape, columns=args.fillings + 2))
        name = out / f"inpainting-{Path(mask).stem}"
        written.append(name.with_suffix(".png"))
        write_png(written[-1], frames[-1])
        if args.gif:
            written.append(name.with_suffix(".gif"))
            write_gif(written[-1], frames)
    for path in written:
        print(path)
    return 0


def _rows(images: np.ndarray, known: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Return original, seen part and fillings of each image in turn, (pictures, pixels)."""
    import numpy as np

    seen = np.where(known, images, HIDDEN)
    fillings = filled.reshape(len(images), -1, images.shape[1])
    rows = np.concatenate([images[:, None], seen[:, None], fillings], axis=1)
    return rows.reshape(-1, images.shape[1])
