"""Samples and inpainting of the Python classes; numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.api.arrays import new_seed
from bihm_repro.api.fitted import Fitted
from bihm_repro.errors import InputError, check_count
from bihm_repro.models import registry
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.inpainting import inpainting_chain

__all__ = ["Sampling"]


class Sampling(Fitted):
    """Methods that draw rows."""

    def sample(
        self,
        n: int = 1,
        gibbs_steps: int | None = None,
        *,
        seed: int | None = 0,
        proposals: int = GibbsSettings.proposals,
        exact: bool = False,
        expected: bool = False,
    ) -> np.ndarray:
        """Draw ``n`` samples (n, dim): of p, or of p* after ``gibbs_steps`` Gibbs steps.

        Models with a p* take 10 steps by default, the others none. ``expected`` returns the
        probabilities of the units, as in the paper's figures. Without ``exact``, the paper's
        procedure, a layer is resampled among new proposals only: chains move in every step, and
        their limit approaches p* as ``proposals`` grows. With ``exact`` the current state is a
        candidate too: p* is the limit for any number of proposals, but chains on trained models
        seldom move. ``seed=None`` draws new samples in every call.
        """
        self._require("sample")
        if gibbs_steps is None:
            gibbs_steps = 10 if registry.kind(self.kind).can(Capability.GIBBS) else 0
        n, steps = check_count(n, "n"), check_count(gibbs_steps, "gibbs_steps", 0)
        random = RandomStream(new_seed(seed), "samples")
        model, settings = self.sampler, _gibbs(proposals, exact)
        if not steps:
            x, means = model.sample(n, random)
            return means if expected else x
        registry.require(self.kind, Capability.GIBBS, "sample with gibbs_steps")
        chain = start_chain(model, model.sample_p(n, random), random)
        for state in gibbs_chain(model, chain, steps, random, settings):
            chain = state
        return model.expected_x(chain.layers) if expected else chain.x

    def inpaint(
        self,
        x: Any,
        mask: Any,
        gibbs_steps: int = 100,
        *,
        seed: int | None = 0,
        proposals: int = GibbsSettings.proposals,
        exact: bool = False,
    ) -> np.ndarray:
        """Fill in ``x`` (examples, dim) where ``mask`` is True, by Gibbs sampling of p*.

        ``mask`` is (dim,) or (examples, dim): True where a value is unknown; the values of ``x``
        there, which may be NaN, are not used. ``exact`` as for :meth:`sample`.
        """
        self._require("inpaint")
        self._fitted()
        x = np.asarray(x.toarray() if hasattr(x, "toarray") else x)
        mask = np.asarray(mask, dtype=bool)
        if mask.shape not in (x.shape[1:], x.shape):
            raise InputError(f"mask has shape {mask.shape}: expected {x.shape} or {x.shape[1:]}")
        x = self._rows(np.where(mask, 0, x)).astype(np.float32)
        known = np.broadcast_to(~mask, x.shape)
        steps, settings = check_count(gibbs_steps, "gibbs_steps"), _gibbs(proposals, exact)
        random = RandomStream(new_seed(seed), "inpainting")
        for state in inpainting_chain(self.sampler, x, known, steps, random, settings):
            chain = state
        return np.where(known, x, chain.x)


def _gibbs(proposals: Any, exact: bool) -> GibbsSettings:
    return GibbsSettings(check_count(proposals, "proposals"), keep_current=bool(exact))
