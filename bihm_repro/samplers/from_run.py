"""What sampling needs of a run folder: its model, its pictures' shape, its test examples."""

from __future__ import annotations

import os
from typing import cast

import numpy as np

from bihm_repro.bricks.plugins import resolve
from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.samplers.base import Sampler, check_sizes
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.samplers.images import parse_shape

__all__ = [
    "check_data",
    "layered_sampler_of",
    "own_shape",
    "picture_shape",
    "random_examples",
    "sampler_of",
]


def sampler_of(folder: RunDirectory) -> Sampler:
    """Return the best model of a run as its kind's sampler."""
    model = folder.recipe.model
    found = registry.kind(model.kind).sampler
    if found is None:
        raise InputError(f"{folder.path}: a {model.kind} model cannot be sampled")
    values = folder.read_model()
    try:
        sampler = resolve(found)(values, model)
        check_sizes(sampler, values.meta.get("data_dim"), model.layers)
        return sampler
    except InputError as error:
        raise InputError(f"{folder.file('model.npz')}: {error}") from None


def check_data(folder: RunDirectory, data_dim: int, dataset: Dataset) -> None:
    """Refuse data that the run's model was not trained on, or cannot take."""
    folder.check_data(dataset.fingerprint)
    if dataset.dim != data_dim:
        raise InputError(
            f"{folder.path}: its model has {data_dim} observed values, the rows of "
            f"data set {dataset.name} have {dataset.dim}; bring its own data back"
        )


def layered_sampler_of(
    folder: RunDirectory, capability: registry.Capability, what: str
) -> HelmholtzSampler:
    """Return the sampler of a run, for ``what``, which needs ``capability``.

    Kinds with one of the capabilities GIBBS, INPAINTING and ACTIVE_UNITS have a HelmholtzSampler,
    or a sampler with the same methods.
    """
    try:
        registry.require(folder.recipe.model.kind, capability, what)
    except InputError as error:
        raise InputError(f"{folder.path}: {error}") from None
    return cast(HelmholtzSampler, sampler_of(folder))


def own_shape(
    folder: RunDirectory, data: str | os.PathLike[str] = "data"
) -> tuple[int, int] | None:
    """Return rows and columns of the pictures of a run's data set; None where it has none."""
    name = folder.recipe.dataset
    if name in DATASETS:
        return DATASETS[name].image_shape
    return load_dataset(name, data).image_shape


def picture_shape(
    folder: RunDirectory, given: str | None, data_dim: int, data: str | os.PathLike[str] = "data"
) -> tuple[int, int]:
    """Return rows and columns: ``given`` (such as 28x28), else those of the run's data set."""
    shape = parse_shape(given) if given else own_shape(folder, data)
    if shape is None:
        raise InputError(
            f"{folder.path}: the rows of data set {folder.recipe.dataset} are no pictures; give "
            f"--shape ROWSxCOLUMNS with {data_dim} pixels in all, such as --shape 1x{data_dim}"
        )
    if shape[0] * shape[1] != data_dim:
        raise InputError(
            f"shape: {shape[0]}x{shape[1]} has {shape[0] * shape[1]} pixels, but the model of "
            f"{folder.path} has {data_dim} observed values; give --shape with {data_dim} in all"
        )
    return shape


def random_examples(
    folder: RunDirectory,
    n: int,
    random: RandomStream,
    data_dim: int,
    data: str | os.PathLike[str] = "data",
) -> np.ndarray:
    """Return ``n`` rows of the run's test split chosen at random, (n, data_dim) in [0, 1]."""
    dataset = load_dataset(folder.recipe.dataset, data)
    check_data(folder, data_dim, dataset)
    rows = dataset.splits["test"]
    if n > len(rows):
        raise InputError(f"n: {n} examples; the test split of {dataset.name} has {len(rows)}")
    return rows[random.choice(len(rows), n)].astype(np.float32)
