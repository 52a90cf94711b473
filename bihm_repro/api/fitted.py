"""What a model of the Python classes holds once it is fitted, and how it is shown and pickled."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.api.arrays import as_binary, as_rows, column_names
from bihm_repro.api.fitting import Trained
from bihm_repro.api.parameters import Parameters, recipe_from
from bihm_repro.bricks.plugins import resolve
from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.models.registry import Capability
from bihm_repro.recipes.recipe import ModelRecipe, Recipe

if TYPE_CHECKING:
    from bihm_repro.models.base import Model as SymbolicModel

__all__ = ["Fitted"]

_NEEDS = {
    "sample": Capability.SAMPLES,
    "inpaint": Capability.INPAINTING,
    "estimate_log_z2": Capability.LOG_Z2,
}


class Fitted(Parameters):
    """Parameters by name and the recipe that they belong to; symbolic and numpy forms of them."""

    _recipe: Recipe | None = None
    _values: dict[str, np.ndarray] | None = None
    _symbolic: SymbolicModel | None = None
    _weights: tuple[int, Any] | None = None

    def _set_fitted(self, recipe: Recipe, found: Trained, names: np.ndarray | None) -> None:
        import pandas

        self._recipe, self._values = recipe, found.values
        self._symbolic = self._weights = None
        self.trained_: dict[str, Any] = {}
        self.n_features_in_ = found.data_dim or self.sampler.data_dim
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self.seed_, self.history_ = recipe.seed, pandas.DataFrame(found.rows)
        measured = self.history_.get("valid_log_p")
        self.best_valid_ = None if measured is None else float(measured.max())

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

    def _require(self, what: str) -> None:
        registry.require(self.kind, _NEEDS[what], what)

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


def _first_difference(names: np.ndarray, fitted: np.ndarray) -> str:
    if len(names) != len(fitted):
        return f"{len(names)} columns are given, {len(fitted)} were fitted"
    column = next(i for i, (a, b) in enumerate(zip(names, fitted)) if a != b)
    return f"column {column} is {names[column]!r}, it was {fitted[column]!r}"
