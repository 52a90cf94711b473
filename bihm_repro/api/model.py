"""The class behind BiHM, RWS, VAE, IWAE and the other kinds: numpy in, numpy out.

The conventions are scikit-learn's: parameters in the constructor, ``fit`` returns the model, what
it learns ends in an underscore. The engine is imported when something has to be compiled; loading,
sampling and ``transform`` do without it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.api.arrays import as_rows, column_names, new_seed
from bihm_repro.api.fitting import hold_out, train
from bihm_repro.api.measuring import Measuring
from bihm_repro.api.parameters import recipe_from
from bihm_repro.api.sampling import Sampling
from bihm_repro.errors import InputError

if TYPE_CHECKING:
    import pandas

__all__ = ["Model"]


class Model(Measuring, Sampling):
    """A model of binary data, trained or not yet; use a subclass, or :func:`load_model`.

    After ``fit``: ``n_features_in_``, ``feature_names_in_`` (of a DataFrame), ``seed_``,
    ``history_`` (one row per epoch) and ``best_valid_`` (validation log p of the parameters kept).
    ``trained_`` of a loaded model says how it was trained: its run's progress and evaluation.
    """

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

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> np.ndarray:
        """Return ``fit(X, y).transform(X)``."""
        return self.fit(X, y, **options).transform(X)

    @property
    def history(self) -> pandas.DataFrame:
        """The log of training, one row per epoch; log-likelihoods in nats per example."""
        self._fitted()
        return self.history_

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
