"""Estimates and latents of the Python classes: log p, 2 log Z, effective sample size, transform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.api.arrays import new_seed
from bihm_repro.api.fitted import Fitted
from bihm_repro.errors import InputError, check_count
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_stream import RandomStream

if TYPE_CHECKING:
    from bihm_repro.estimators.effective_sample_size import EffectiveSampleSize
    from bihm_repro.estimators.log_likelihood import LogLikelihood
    from bihm_repro.estimators.partition_function import LogZ2

__all__ = ["Measuring"]


class Measuring(Fitted):
    """Methods that measure rows of data."""

    def log_likelihood(
        self, x: Any, samples: int = 1000, *, log_z2: float | None = None, seed: int | None = 0
    ) -> LogLikelihood:
        """Return per-example log p, log p~* and, given 2 log Z, log p* of ``x`` (examples, dim).

        Rows with values between 0 and 1 stand for one binary sample of them, the one that
        ``bihm evaluate`` uses; a :class:`GreyLevelsWarning` says so.
        """
        from bihm_repro.estimators.log_likelihood import estimate_log_likelihood

        rows, k, used = self._rows(x), check_count(samples, "samples"), new_seed(seed)
        options: dict[str, Any] = {"log_z2": log_z2, "seed": used}
        if not self.symbolic.can(Capability.EXACT_LOG_P):
            options["log_weights"] = self._log_weights(used)
        return estimate_log_likelihood(self.symbolic, rows, (k,), **options)[k]

    def _log_weights(self, seed: int) -> Any:
        """Return the compiled log-weights for ``seed``, kept for the next call."""
        from bihm_repro.estimators.streaming import LogWeights
        from bihm_repro.ops.random_numbers import seed_for

        if self._weights is None or self._weights[0] != seed:
            weights = LogWeights(self.symbolic, seed_for(seed, "log-likelihood"))
            self._weights = seed, weights
        return self._weights[1]

    def score_samples(self, X: Any) -> np.ndarray:
        """Return log p of each row, estimated with ``eval_samples`` samples."""
        return self.log_likelihood(X, self.eval_samples).log_p

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log p of the rows, in nats; ``y`` is ignored."""
        return float(np.mean(self.score_samples(X)))

    def effective_sample_size(
        self, x: Any, samples: int = 1000, *, seed: int | None = 0
    ) -> EffectiveSampleSize:
        """Return the effective sample size of q(h|x) per example, in percent of ``samples``."""
        from bihm_repro.estimators.effective_sample_size import estimate_effective_sample_size

        rows, used = self._rows(x), new_seed(seed)
        return estimate_effective_sample_size(
            self.symbolic, rows, check_count(samples, "samples"), seed=used
        )

    def estimate_log_z2(
        self, samples: int = 100_000, *, inner: int = 1, seed: int | None = 0
    ) -> LogZ2:
        """Return 2 log Z with its standard error."""
        self._require("estimate_log_z2")
        from bihm_repro.estimators.partition_function import estimate_log_z2

        return estimate_log_z2(self.symbolic, samples, inner=inner, seed=new_seed(seed))

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """Return the means of the units of a latent layer under q(h|x), (examples, units).

        ``layer`` is ``transform_layer`` by default, 1 for the lowest. The means of layer 1 are
        exact; those of higher ones are averages over ``eval_samples`` samples of the layer below.
        """
        rows = self._rows(X).astype(np.float32)
        which = check_count(self.transform_layer if layer is None else layer, "layer")
        if which > len(self.settings.layers):
            raise InputError(
                f"layer is {which}: this model has the latent layers 1 to "
                f"{len(self.settings.layers)}"
            )
        samples = check_count(self.eval_samples, "eval_samples")
        return self.sampler.posterior_means(rows, which, samples, RandomStream(0, "posterior"))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``: ``bihm0``, ``bihm1``, ..."""
        self._fitted()
        units = self.settings.layers[self.transform_layer - 1]
        return np.array([f"{self.kind}{unit}" for unit in range(units)], dtype=object)
