"""The Python face: numpy in, numpy out.

>>> from bihm_repro import BiHM, load_model                      # doctest: +SKIP
>>> model = load_model("results/mnist")                          # doctest: +SKIP
>>> model.log_likelihood(x, samples=1000).log_p                  # doctest: +SKIP
>>> mine = BiHM(layers=[200, 100, 50]).fit(train, valid)         # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bihm_repro.bricks.plugins import resolve
from bihm_repro.errors import InputError
from bihm_repro.estimators.effective_sample_size import (
    EffectiveSampleSize,
    estimate_effective_sample_size,
)
from bihm_repro.estimators.evaluate import stored_model
from bihm_repro.estimators.log_likelihood import LogLikelihood, estimate_log_likelihood
from bihm_repro.estimators.partition_function import LogZ2, estimate_log_z2
from bihm_repro.estimators.streaming import check_count, check_data
from bihm_repro.models import registry
from bihm_repro.models.base import Model as SymbolicModel
from bihm_repro.models.build import build_model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Phase, Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.inpainting import inpainting_chain

__all__ = ["BiHM", "IWAE", "Model", "RWS", "VAE", "load_model"]

# A schedule that suits small data: a high rate first, then lower, each until validation stops
# improving.
_PHASES = (Phase(samples=10, learning_rate=1e-2, patience=20),
           Phase(samples=10, learning_rate=1e-3, patience=20))


class Model:
    """A trained, or yet to be trained, model of binary data.

    Parameters
    ----------
    layers : latent layer sizes, from the data up
    settings : further fields of a recipe's ``[model]`` section, such as ``weights="glorot"``
    """

    kind: ClassVar[str] = ""

    def __init__(self, layers: Sequence[int], **settings: Any) -> None:
        settings = {"kind": self.kind, "layers": np.asarray(layers).tolist(),
                    **registry.kind(self.kind).defaults, **settings}
        self.settings = Recipe.from_dict({"dataset": "own", "model": settings},
                                         source=type(self).__name__).model
        self._symbolic: SymbolicModel | None = None

    # -- training

    def fit(self, train: np.ndarray, valid: np.ndarray, *, phases: Sequence[Phase] = _PHASES,
            seed: int = 0, out: str | os.PathLike[str] | None = None, quiet: bool = True,
            **training: Any) -> Model:
        """Train on ``train`` (examples, dim), keeping what is best on ``valid``.

        ``training`` has fields of a recipe's ``[training]`` section (``l1``, ``batch_size``, ...);
        ``out`` makes it a run folder that can be paused, resumed and loaded.
        """
        from bihm_repro.datasets.checks import fingerprint_of_splits
        from bihm_repro.training.session import Options, TrainingData
        from bihm_repro.training.session import train as run_training

        train = check_data(train, np.shape(train)[-1] if np.ndim(train) else 0, "train")
        valid = check_data(valid, train.shape[1], "valid")
        content = Recipe(dataset="own", model=self.settings, phases=tuple(phases)).to_dict()
        content["training"].update(training)
        content["monitor"]["test_every"] = 0
        recipe = Recipe.from_dict({**content, "seed": seed}, source="fit")
        run = None
        if out is not None:
            run = RunDirectory(out)
            run.claim(recipe)
        self._symbolic = build_model(self.settings, train.shape[1], seed)
        data = TrainingData(train, valid, None, fingerprint_of_splits(
            {"train": train, "valid": valid}, binary=False), False)
        run_training(self._symbolic, recipe, data, run, Options(quiet=quiet))
        return self

    # -- what every model offers

    @property
    def symbolic(self) -> SymbolicModel:
        """The symbolic model behind this one, with its parameters."""
        if self._symbolic is None:
            raise InputError(f"this {type(self).__name__} is not trained: call fit(train, valid), "
                             "or load one with load_model(run_folder)")
        return self._symbolic

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """A copy of the parameters, by the names that ``model.npz`` has."""
        return self.symbolic.get_values()

    def log_likelihood(self, x: np.ndarray, samples: int = 1000, *, log_z2: float | None = None,
                       seed: int = 0) -> LogLikelihood:
        """Per-example log p, log p~* and, given 2 log Z, log p* of ``x`` (examples, dim)."""
        found = estimate_log_likelihood(self.symbolic, x, (samples,), log_z2=log_z2, seed=seed)
        return found[samples]

    def effective_sample_size(self, x: np.ndarray, samples: int = 1000, *,
                              seed: int = 0) -> EffectiveSampleSize:
        """Per-example effective sample size of q(h|x), in percent of ``samples``."""
        return estimate_effective_sample_size(self.symbolic, x, samples, seed=seed)


    # -- what some models offer

    def _require(self, capability: Capability, what: str) -> None:
        registry.require(self.settings.kind, capability, what)

    def _sampler(self) -> Any:
        return resolve(registry.kind(self.settings.kind).sampler)(self.parameters, self.settings)

    def estimate_log_z2(self, samples: int = 100_000, *, inner: int = 1, seed: int = 0) -> LogZ2:
        """2 log Z with its standard error."""
        return estimate_log_z2(self.symbolic, samples, inner=inner, seed=seed)

    def sample(self, n: int, gibbs_steps: int | None = None, *, seed: int = 0,
               proposals: int = GibbsSettings.proposals, exact: bool = False,
               expected: bool = False) -> np.ndarray:
        """``n`` samples (n, dim): of p, or of p* after ``gibbs_steps`` steps of Gibbs sampling.

        Models with a p* make 10 steps unless told otherwise, the others none. ``expected`` gives
        the units' probabilities, as the paper's pictures do. ``exact`` makes the current state a
        candidate beside the proposals: p* is then the limit for any number of proposals, but
        chains on trained models seldom move; without it, the paper's procedure, they move in
        every step, and their limit approaches p* as ``proposals`` grows.
        """
        self._require(Capability.ANCESTRAL, "sample")
        if gibbs_steps is None:
            gibbs_steps = 10 if registry.kind(self.settings.kind).can(Capability.GIBBS) else 0
        n, steps = check_count(n, "n"), check_count(gibbs_steps, "gibbs_steps", least=0)
        random = RandomStream(check_count(seed, "seed", least=0), "samples")
        model, settings = self._sampler(), GibbsSettings(check_count(proposals, "proposals"),
                                                         keep_current=exact)
        if not steps:
            x, means = model.sample(n, random)
            return means if expected else x
        self._require(Capability.GIBBS, "sample with gibbs_steps")
        chain = start_chain(model, model.sample_p(n, random), random)
        for _state in gibbs_chain(model, chain, steps, random, settings):
            chain = _state
        return model.expected_x(chain.layers) if expected else chain.x

    def inpaint(self, x: np.ndarray, mask: np.ndarray, gibbs_steps: int = 100, *, seed: int = 0,
                proposals: int = GibbsSettings.proposals, exact: bool = False) -> np.ndarray:
        """Fill in ``x`` (examples, dim) where ``mask`` is True, by Gibbs sampling of p*.

        ``mask`` is (dim,) or (examples, dim): True where a value is unknown; what ``x`` holds
        there, NaN perhaps, does not matter. ``exact`` as for :meth:`sample`.
        """
        self._require(Capability.INPAINTING, "inpaint")
        x, mask = np.asarray(x), np.asarray(mask, dtype=bool)
        if mask.shape not in (x.shape[1:], x.shape):
            raise InputError(f"mask has shape {mask.shape}: expected {x.shape} or {x.shape[1:]}")
        x = check_data(np.where(mask, 0, x), self.symbolic.data_dim)
        known = np.broadcast_to(~mask, x.shape)
        settings = GibbsSettings(check_count(proposals, "proposals"), keep_current=exact)
        random = RandomStream(check_count(seed, "seed", least=0), "inpainting")
        for chain in inpainting_chain(self._sampler(), x, known,  # noqa: B007
                                      check_count(gibbs_steps, "gibbs_steps"), random, settings):
            pass
        return np.where(known, x, chain.x)


class BiHM(Model):
    """The bidirectional Helmholtz machine."""

    kind = "bihm"


class RWS(Model):
    """Reweighted wake-sleep."""

    kind = "rws"


class VAE(Model):
    """The variational autoencoder with Gaussian latents."""

    kind = "vae"


class IWAE(Model):
    """The importance-weighted autoencoder."""

    kind = "iwae"


def load_model(path: str | os.PathLike[str]) -> Model:
    """The best model of a run folder such as ``results/mnist``."""
    run = RunDirectory(path)
    settings = run.recipe.model
    cls = next((cls for cls in Model.__subclasses__() if cls.kind == settings.kind), Model)
    model = object.__new__(cls)
    model.settings = settings
    model._symbolic = stored_model(run)
    return model
