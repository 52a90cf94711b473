"""A page in which a model runs: one HTML file that needs neither a server nor a network.

The weights are stored as float16. The page computes with these rounded values in float32, so that
its log-probabilities equal those of numpy with the same rounded weights.
"""

from __future__ import annotations

import base64
import math
from importlib import resources

import numpy as np
from markupsafe import Markup

from bihm_repro.datasets.registry import DATASETS
from bihm_repro.errors import InputError
from bihm_repro.report.figures.images import model_of
from bihm_repro.report.figures.samples import FACES
from bihm_repro.report.footnotes import UNFINISHED, marks_of
from bihm_repro.report.methods import method_of, negative_log_likelihood
from bihm_repro.report.pages import render
from bihm_repro.report.tables.table import plain_text
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.reader import Run

__all__ = ["build_demo", "half_precision", "page_shape"]

FILES = {"css": "demo.css", "worker": "demo_worker.js", "script": "demo.js"}


def half_precision(values: dict[str, np.ndarray], depth: int) -> dict[str, np.ndarray]:
    """Return the parameters as float16, in the order in which the page reads them."""
    names = [f"{part}{level}.{kind}" for level in range(depth) for part in "pq" for kind in "Wb"]
    halves = {name: np.asarray(values[name], "<f2") for name in (*names, f"p{depth}.b")}
    for name, value in halves.items():
        if not np.isfinite(value).all():
            raise InputError(f"model.npz: {name} has values beyond the range of float16 (65504)")
    return halves


def page_shape(run: Run, dim: int) -> tuple[int, int]:
    """Return rows and columns of the data layer; nearly square where the data are no images."""
    entry = DATASETS.get(run.dataset)
    shape = entry.image_shape if entry is not None else None
    if shape is not None and shape[0] * shape[1] == dim:
        return shape
    columns = math.ceil(math.sqrt(dim))
    return math.ceil(dim / columns), columns


def _hexadecimal(row: np.ndarray) -> str:
    """Bits as hexadecimal text, four in each character."""
    return np.packbits(np.asarray(row) > 0.5).tobytes().hex()


def build_demo(run: Run, examples: np.ndarray | None = None, seed: int | None = None) -> str:
    """Return the page as text; ``examples`` (n, data_dim) are test rows to start from.

    With a ``seed`` the page makes the same samples each time it is opened.
    """
    if method_of(run) != "BiHM":
        raise InputError(
            f"{run.path}: is a {method_of(run)} model; `bihm demo` shows the Gibbs sampler of p*, "
            "which needs a bihm model with Bernoulli layers"
        )
    if not run.model_path.is_file():
        raise InputError(f"{run.model_path}: no such file; train the run first")
    model, values = model_of(run), RunDirectory(run.path).read_model()
    halves = half_precision(values, model.depth)
    content = b"".join(value.tobytes() for value in halves.values())
    tilde = run.estimate("log_p_tilde_star")
    parts = resources.files("bihm_repro.report.pages") / "templates"
    settings = {
        "name": plain_text(run.name),
        "sizes": [int(size) for size in model.sizes],
        "shape": page_shape(run, model.sizes[0]),
        "log_z2": run.log_z2 and run.log_z2.value,
        "average": tilde and tilde.value,
        "inverted": run.dataset in FACES,
        "examples": [] if examples is None else [_hexadecimal(row) for row in examples],
        "seed": seed,
    }
    texts = {name: (parts / file).read_text(encoding="utf-8") for name, file in FILES.items()}
    return render(
        "demo.html",
        title=plain_text(run.recipe.get("title") or run.name),
        description=_description(run, model.sizes),
        provenance=_provenance(run),
        has_examples=bool(settings["examples"]),
        examples_title="Test digits" if "mnist" in run.dataset else "Test examples",
        top_units=model.sizes[-1],
        weights=base64.b64encode(content).decode("ascii"),
        model=settings,
        **{name: Markup(text) for name, text in texts.items()},
    )


def _description(run: Run, sizes: list[int]) -> str:
    layers = ", ".join(map(str, sizes[1:]))
    what = "handwritten digits" if "mnist" in run.dataset else f"the data set {run.dataset}"
    return (
        f"A bidirectional Helmholtz machine trained on {what}: {sizes[0]} pixels below "
        f"{len(sizes) - 1} layers of {layers} binary units."
    )


def _provenance(run: Run) -> str:
    nll = negative_log_likelihood(run)
    if nll is None:
        return f"The model is that of run {plain_text(run.name)}, not evaluated yet."
    unfinished = " (training not finished)" if UNFINISHED in marks_of(run) else ""
    return (
        f"The model is that of run {plain_text(run.name)}{unfinished}, with a test -log p of "
        f"{nll.value:.2f} nats; here its weights are rounded to 16 bits."
    )
