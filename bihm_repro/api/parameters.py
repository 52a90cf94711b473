"""Constructor parameters of the Python classes, by scikit-learn's conventions.

A class takes the parameters of ``OWN`` and every field of a recipe's ``model`` and ``training``
sections, so that a setting added to recipes is a parameter in Python at once. The constructor
stores them as they are; ``fit`` checks them by making a recipe of them. scikit-learn itself is
not needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.recipes.extends import suggestion
from bihm_repro.recipes.recipe import ModelRecipe, Phase, Recipe, TrainingRecipe

__all__ = ["OWN", "Parameters", "recipe_from"]

EPOCHS_OF_AVERAGE = 15

OWN: dict[str, tuple[Any, str]] = {
    "layers": ((200, 100), "latent layer sizes from the data up"),
    "learning_rate": ((1e-2, 3e-3), "a number, or a sequence with one for each phase of training"),
    "max_epochs": (200, "most epochs of each phase"),
    "patience": (20, "epochs without a better validation log p that end a phase"),
    "samples": (10, "K, the samples of q for each example in an update"),
    "average_over": (
        "auto",
        "updates that a Polyak average of the parameters covers, which is what is measured and "
        f'kept; "auto" for {EPOCHS_OF_AVERAGE} epochs, None for no average',
    ),
    "phases": (None, "phases of a recipe (Phase or dict), instead of the five parameters above"),
    "valid_fraction": (0.1, "share of the rows held out for validation where fit is given none"),
    "threshold": (None, "values above it count as 1, the others as 0; None: they are in [0, 1]"),
    "transform_layer": (1, "latent layer that transform returns; 1 is next to the data"),
    "eval_samples": (100, "samples for each example in score, score_samples and transform"),
    "callbacks": ((), "called with the row of every epoch; one that returns True ends training"),
    "random_state": (0, "seed of everything random in fit; None for a new one in each call"),
    "verbose": (1, "0 prints nothing in fit"),
}
"""Name to default and meaning of the parameters that are not settings of a recipe."""


class Parameters:
    """get_params, set_params, the constructor and the repr; ``kind`` is a kind of the registry."""

    kind: ClassVar[str] = ""
    own_defaults: ClassVar[dict[str, Any]] = {}
    """Defaults of this class that differ from those of ``OWN`` and of the recipe."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Stand for the parameters, which are attributes."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class the constructor of its kind, unless it has one of its own."""
        super().__init_subclass__(**options)
        if cls.kind and "__init__" not in vars(cls):
            declared = _declared(cls)
            cls.__init__ = _constructor(declared)  # type: ignore[method-assign]
            lines = [f"{name} : {doc} (default: {value!r})" for name, (value, doc) in declared]
            parts = [inspect.cleandoc(cls.__doc__ or cls.__name__), "", "Parameters", "-" * 10]
            cls.__doc__ = "\n".join([*parts, *lines])

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    @classmethod
    def _default(cls, name: str) -> Any:
        return inspect.signature(cls.__init__).parameters[name].default

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters by name; ``deep`` is for scikit-learn."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; returns the model."""
        for name, value in params.items():
            if name not in self._names():
                raise InputError(_unknown(type(self).__name__, name, self._names()))
            setattr(self, name, value)
        return self

    def _changed(self) -> dict[str, Any]:
        """Return the parameters that are not at their default."""
        defaults = {name: self._default(name) for name in self._names()}
        params = self.get_params()
        return {name: params[name] for name in params if not _equal(params[name], defaults[name])}

    def __repr__(self) -> str:
        """Show the parameters that are not at their default."""
        shown = (f"{name}={_short(value)}" for name, value in self._changed().items())
        return f"{type(self).__name__}({', '.join(shown)})"


def recipe_from(model: Parameters, seed: int, batches: int | None = None) -> Recipe:
    """Return the recipe that the parameters of ``model`` make, or say which one is wrong.

    ``batches`` is the number of updates in an epoch, for ``average_over="auto"``.
    """
    params = {name: _plain(value) for name, value in model.get_params().items()}
    sections = {
        name: {key: params[key] for key in _fields(kind) if params.get(key) is not None}
        for name, kind in (("model", ModelRecipe), ("training", TrainingRecipe))
    }
    sections["model"].update(kind=model.kind, layers=params["layers"])
    content = {
        "dataset": "own",
        "seed": seed,
        **sections,
        "phases": _phases(params, batches),
        "monitor": {"test_every": 0},
    }
    return Recipe.from_dict(content, source=type(model).__name__)


def _phases(params: Mapping[str, Any], batches: int | None) -> Any:
    if params["phases"] is not None:
        return params["phases"]
    rates = params["learning_rate"]
    rates = rates if isinstance(rates, list) else [rates]
    shared = {name: params[name] for name in ("samples", "patience", "max_epochs")}
    average = params["average_over"]
    if average == "auto":
        average = max(2, EPOCHS_OF_AVERAGE * (batches or 1))
    if average is not None:
        shared["average_over"] = average
    return [{"learning_rate": rate, **shared} for rate in rates]


def _fields(section: type) -> list[str]:
    return [item.name for item in fields(section) if item.name not in ("kind", "layers")]


def _declared(cls: type[Parameters]) -> list[tuple[str, tuple[Any, str]]]:
    kind = registry.kind(cls.kind)
    own = dict(OWN)
    for section in (ModelRecipe, TrainingRecipe):
        for item in fields(section):
            optional = item.name in registry.OPTIONAL_SETTINGS
            if item.name in _fields(section) and (not optional or item.name in kind.settings):
                own[item.name] = (item.default, item.metadata["doc"])
    binary = kind.can(registry.Capability.ACTIVE_UNITS)
    new = {"weights": "glorot", "centred": binary, **kind.defaults, **cls.own_defaults}
    return [(name, (new.get(name, value), doc)) for name, (value, doc) in own.items()]


def _constructor(declared: list[tuple[str, tuple[Any, str]]]) -> Any:
    kinds = inspect.Parameter
    signature = inspect.Signature(
        [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
        + [
            kinds(
                name,
                kinds.POSITIONAL_OR_KEYWORD if name == "layers" else kinds.KEYWORD_ONLY,
                default=value,
            )
            for name, (value, _) in declared
        ]
    )

    def __init__(self: Any, *args: Any, **params: Any) -> None:
        unknown = [name for name in params if name not in signature.parameters]
        if unknown:
            names = list(signature.parameters)
            raise TypeError(_unknown(type(self).__name__, unknown[0], names))
        bound = signature.bind(self, *args, **params)
        bound.apply_defaults()
        for name in list(bound.arguments)[1:]:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _unknown(cls: str, name: str, known: list[str]) -> str:
    known = [other for other in known if other != "self"]
    return f"{cls} has no parameter {name!r}{suggestion(name, known)}; it has {', '.join(known)}"


def _plain(value: Any) -> Any:
    """Return ``value`` as a recipe's TOML would hold it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Phase) or is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(item) for name, item in asdict(value).items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _equal(a: Any, b: Any) -> bool:
    return a is b or _plain(a) == _plain(b)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"
