"""The class behind BiHM, RWS, VAE, IWAE and the other kinds: numpy in, numpy out.

The conventions are scikit-learn's: parameters in the constructor, ``fit`` returns the model, what
it learns ends in an underscore. The engine is imported when something has to be compiled; loading,
sampling and ``transform`` do without it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.api.arrays import as_binary, as_rows, column_names, count, new_seed
from bihm_repro.api.fitting import Trained, hold_out, train
from bihm_repro.api.parameters import Parameters, recipe_from
from bihm_repro.bricks.plugins import resolve
from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import ModelRecipe, Recipe
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.inpainting import inpainting_chain

if TYPE_CHECKING:
    import pandas

    from bihm_repro.estimators.effective_sample_size import EffectiveSampleSize
    from bihm_repro.estimators.log_likelihood import LogLikelihood
    from bihm_repro.estimators.partition_function import LogZ2
    from bihm_repro.models.base import Model as SymbolicModel

__all__ = ["Model"]

_NEEDS = {
    "sample": Capability.ANCESTRAL,
    "inpaint": Capability.INPAINTING,
    "estimate_log_z2": Capability.LOG_Z2,
}


class Model(Parameters):
    """A model of binary data, trained or not yet; use a subclass, or :func:`load_model`.

    After ``fit``: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``seed_``,
    ``history_`` (one row per epoch) and ``best_valid_`` (validation log p of the parameters kept).
    ``trained_`` of a loaded model says how it was trained: its run's progress and evaluation.
    """

    _recipe: Recipe | None = None
    _values: dict[str, np.ndarray] | None = None
    _symbolic: SymbolicModel | None = None
    _weights: tuple[int, Any] | None = None

    # -- training

    def fit(
        self,
        X: Any,
        y: Any = None,
        valid: Any = None,
        *,
        out: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Train on the rows of ``X`` (examples, dim) and keep what is best on ``valid``.

        Parameters
        ----------
        X : array, DataFrame, scipy sparse matrix or lists with values in [0, 1]. Values between 0
            and 1 are probabilities: they are binarized again in each epoch
        y : ignored, as in scikit-learn's transformers; an array of two or more columns, as many as
            ``X`` has, is taken for ``valid``
        valid : rows for validation; by default ``valid_fraction`` of ``X``, chosen at random
        out : a run folder, which can be paused, resumed and loaded

        Ctrl-C keeps the best parameters so far, then raises KeyboardInterrupt.
        """
        rows = as_rows(X, "X", self.threshold)
        labels = np.asarray(y)
        if valid is None and labels.ndim == 2 and labels.shape[1] == rows.shape[1] > 1:
            valid = y
        seed = new_seed(self.random_state, "random_state")
        if valid is None:
            rows, held = hold_out(rows, self.valid_fraction, seed)
        else:
            held = as_rows(valid, "valid", self.threshold)
            if held.shape[1] != rows.shape[1]:
                raise InputError(f"valid has shape {held.shape}, X has {rows.shape[1]} columns")
        size = self.batch_size if isinstance(self.batch_size, int) else 0
        recipe = recipe_from(self, seed, -(-len(rows) // max(1, size)))
        found = train(recipe, rows, held, self.callbacks, out, bool(self.verbose))
        self._set_fitted(recipe, found, column_names(X))
        if found.interrupted:
            raise KeyboardInterrupt
        return self

    def _set_fitted(self, recipe: Recipe, found: Trained, names: np.ndarray | None) -> None:
        import pandas

        self._recipe, self._values = recipe, found.values
        self._symbolic = self._weights = None
        self.trained_: dict[str, Any] = {}
        self.n_features_in_ = self.sampler.data_dim
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self.seed_, self.history_ = recipe.seed, pandas.DataFrame(found.rows)
        measured = self.history_.get("valid_log_p")
        self.best_valid_ = None if measured is None else float(measured.max())

    @property
    def history(self) -> pandas.DataFrame:
        """The log of training, one row per epoch; log-likelihoods in nats per example."""
        self._fitted()
        return self.history_

    # -- what is fitted

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model has parameters."""
        return self._values is not None

    def _fitted(self) -> dict[str, np.ndarray]:
        if self._values is None:
            message = (
                f"this {type(self).__name__} is not trained: call fit(X), or load one with "
                "load_model(run_folder)"
            )
            sklearn = sys.modules.get("sklearn.exceptions")
            if sklearn is None:
                raise InputError(message)
            raise type("NotFittedError", (InputError, sklearn.NotFittedError), {})(message)
        return self._values

    @property
    def settings(self) -> ModelRecipe:
        """The ``model`` section of the recipe that the parameters belong to."""
        return (self._recipe or recipe_from(self, 0)).model

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """A copy of the parameters, by the names that ``model.npz`` has."""
        values = self._fitted() if self._symbolic is None else self._symbolic.get_values()
        return {name: np.array(value) for name, value in values.items()}

    @property
    def symbolic(self) -> SymbolicModel:
        """The symbolic model, with its parameters; imports the engine."""
        values = self._fitted()
        if self._symbolic is None:
            from bihm_repro.models.build import build_model

            model = build_model(self.settings, self.n_features_in_)
            model.set_values(values)
            self._symbolic = model
        return self._symbolic

    @property
    def sampler(self) -> Any:
        """The model in numpy, see ``samplers.base``."""
        found = registry.kind(self.kind).sampler
        if found is None:
            raise InputError(f"a {self.kind} model cannot be sampled")
        return resolve(found)(self.parameters, self.settings)

    def _rows(self, x: Any, split: str = "test") -> np.ndarray:
        """Check ``x`` against what the model was fitted on; return it as 0/1 (examples, dim)."""
        self._fitted()
        names, fitted = column_names(x), getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None and list(names) != list(fitted):
            raise InputError(
                f"X: The feature names should match those that were passed during fit: "
                f"{_first_difference(names, fitted)}"
            )
        rows = as_rows(x, "X", self.threshold)
        if rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return as_binary(rows, split)

    # -- estimates

    def log_likelihood(
        self, x: Any, samples: int = 1000, *, log_z2: float | None = None, seed: int | None = 0
    ) -> LogLikelihood:
        """Return per-example log p, log p~* and, given 2 log Z, log p* of ``x`` (examples, dim).

        Rows with values between 0 and 1 stand for one binary sample of them, the one that
        ``bihm evaluate`` uses; a :class:`GreyLevelsWarning` says so.
        """
        from bihm_repro.estimators.log_likelihood import estimate_log_likelihood

        rows, k, used = self._rows(x), count(samples, "samples"), new_seed(seed)
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
            self.symbolic, rows, count(samples, "samples"), seed=used
        )

    def estimate_log_z2(
        self, samples: int = 100_000, *, inner: int = 1, seed: int | None = 0
    ) -> LogZ2:
        """Return 2 log Z with its standard error."""
        self._require("estimate_log_z2")
        from bihm_repro.estimators.partition_function import estimate_log_z2

        return estimate_log_z2(self.symbolic, samples, inner=inner, seed=new_seed(seed))

    # -- latents and samples

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """Return the means of the units of a latent layer under q(h|x), (examples, units).

        ``layer`` is ``transform_layer`` by default, 1 for the lowest. The means of layer 1 are
        exact; those of higher ones are averages over ``eval_samples`` samples of the layer below.
        """
        rows = self._rows(X).astype(np.float32)
        which = count(self.transform_layer if layer is None else layer, "layer")
        if which > len(self.settings.layers):
            raise InputError(
                f"layer is {which}: this model has the latent layers 1 to "
                f"{len(self.settings.layers)}"
            )
        samples = count(self.eval_samples, "eval_samples")
        return self.sampler.posterior_means(rows, which, samples, RandomStream(0, "posterior"))

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Return ``fit(X, y).transform(X)``."""
        return self.fit(X, y, **options).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``: ``bihm0``, ``bihm1``, ..."""
        self._fitted()
        units = self.settings.layers[self.transform_layer - 1]
        return np.array([f"{self.kind}{unit}" for unit in range(units)], dtype=object)

    def _require(self, what: str) -> None:
        registry.require(self.kind, _NEEDS[what], what)

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
        n, steps = count(n, "n"), count(gibbs_steps, "gibbs_steps", 0)
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
        steps, settings = count(gibbs_steps, "gibbs_steps"), _gibbs(proposals, exact)
        random = RandomStream(new_seed(seed), "inpainting")
        for state in inpainting_chain(self.sampler, x, known, steps, random, settings):
            chain = state
        return np.where(known, x, chain.x)

    # -- storage and display

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one .npz file, which :meth:`load` and ``load_model`` read."""
        from bihm_repro.api.storage import save_model

        self._fitted()
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read a model of this class from a file, a run folder or the name of a trained model."""
        from bihm_repro.api.storage import load_model

        model = load_model(path)
        if not isinstance(model, cls):
            raise InputError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is compiled."""
        state = {**vars(self), "_values": self.parameters} if self._values else dict(vars(self))
        return {**state, "_symbolic": None, "_weights": None} if self._values else state

    def __dir__(self) -> list[str]:
        """Leave out the methods that this kind of model does not have."""
        kind = registry.kind(self.kind)
        return [name for name in super().__dir__() if name not in _NEEDS or kind.can(_NEEDS[name])]

    def __repr__(self) -> str:
        """Show the parameters, and what was trained."""
        text = super().__repr__()
        if self._values is None:
            return text
        best = "" if self.best_valid_ is None else f", validation log p {self.best_valid_:.2f}"
        epochs = f", {len(self.history_)} epochs" if len(self.history_) else ""
        return f"<{text}, trained: {self.n_features_in_} inputs{epochs}{best}>"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know of an estimator; only it calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(sparse=True, positive_only=self.threshold is None),
        )


def _gibbs(proposals: Any, exact: bool) -> GibbsSettings:
    return GibbsSettings(count(proposals, "proposals"), keep_current=bool(exact))


def _first_difference(names: np.ndarray, fitted: np.ndarray) -> str:
    if len(names) != len(fitted):
        return f"{len(names)} columns are given, {len(fitted)} were fitted"
    column = next(i for i, (a, b) in enumerate(zip(names, fitted)) if a != b)
    return f"column {column} is {names[column]!r}, it was {fitted[column]!r}"
