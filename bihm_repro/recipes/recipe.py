"""Recipes: what to train, on what, and how; typed, checked, and written as TOML.

The defaults are those of the paper's experiments (section 4): Adam on mini-batches of 100,
biases of -1, an L1 penalty of 1e-3, K = 10 samples at a learning rate of 1e-3 until the
validation figure stops improving, then K = 100 at 3e-4. A recipe states only what differs.

>>> Recipe.from_dict({"dataset": "mushrooms", "model": {"layers": [150, 100]}}).model.kind
'bihm'
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from bihm_repro.errors import InputError
from bihm_repro.recipes import fields as allowed
from bihm_repro.recipes.fields import Setting, setting

try:
    import tomllib
except ModuleNotFoundError:  # Python below 3.11
    import tomli as tomllib

__all__ = ["Recipe", "ModelRecipe", "TrainingRecipe", "Phase", "MonitorRecipe",
           "EvaluationRecipe", "find_recipe"]


@dataclass(frozen=True)
class ModelRecipe:
    """The model: which kind, how large, and how its parameters start."""

    kind: str = setting("bihm", allowed.one_of("bihm", "rws", "vae", "iwae"))
    layers: tuple[int, ...] = setting((), allowed.sizes("latent layer sizes from the data up"))
    hidden: tuple[Any, ...] = setting((), allowed.hidden_sizes())
    activation: str = setting("relu", allowed.one_of("tanh", "relu", "logistic"))
    weights: str = setting("glorot-over-fan-in",
                           allowed.one_of("glorot-over-fan-in", "glorot", "gaussian"))
    weights_scale: float = setting(0.1, allowed.number(above=0))
    bias: float = setting(-1.0, allowed.number())


@dataclass(frozen=True)
class TrainingRecipe:
    """What every phase shares: mini-batches, penalties and the step rule.

    The gradient is the sum over the mini-batch, and the penalties are added to that sum.
    """

    batch_size: int = setting(100, allowed.whole(1))
    l1: float = setting(1e-3, allowed.number(at_least=0))
    l2: float = setting(0.0, allowed.number(at_least=0))
    control_variate: bool = setting(True, allowed.switch())
    step_rule: str = setting("adam", allowed.one_of("adam", "rmsprop", "momentum", "sgd"))
    clip_norm: float = setting(0.0, allowed.number(at_least=0))


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one K; it starts from the best parameters so far."""

    samples: int = setting(10, allowed.whole(1))
    learning_rate: float = setting(1e-3, allowed.number(above=0))
    patience: int = setting(10, allowed.whole(1))
    max_epochs: int = setting(10000, allowed.whole(1))
    learning_rates: tuple[tuple[float, int], ...] = setting((), allowed.schedule())
    batch_size: Optional[int] = setting(None, allowed.whole(1))  # noqa: UP045 (Python 3.9)
    l1: Optional[float] = setting(None, allowed.number(at_least=0))  # noqa: UP045
    average_over: Optional[int] = setting(None, allowed.whole(2))  # noqa: UP045
    """Measure and keep a running mean of the parameters over about so many updates."""
    valid_samples: Optional[int] = setting(None, allowed.whole(1))  # noqa: UP045
    """The K of this phase's validation figure, where it is not the monitor's."""

    def rate_at(self, epoch: int) -> float:
        """Return the learning rate of the phase's ``epoch``, counted from 0."""
        end = 0
        for rate, epochs in self.learning_rates:
            end += epochs
            if epoch < end:
                return rate
        return self.learning_rates[-1][0] if self.learning_rates else self.learning_rate

    @property
    def last_epoch(self) -> int:
        """Epochs after which the phase is over whatever its figures say."""
        if self.learning_rates:
            return min(self.max_epochs, sum(epochs for _, epochs in self.learning_rates))
        return self.max_epochs


PAPER_PHASES = (Phase(), Phase(samples=100, learning_rate=3e-4))


@dataclass(frozen=True)
class MonitorRecipe:
    """What is measured while training, and how often (in epochs)."""

    valid_samples: int = setting(10, allowed.whole(1))
    every: int = setting(1, allowed.whole(1))
    test_every: int = setting(10, allowed.whole(0))
    test_samples: tuple[int, ...] = setting((1, 10, 100, 1000), allowed.sizes("numbers K"))
    test_examples: int = setting(1000, allowed.whole(0))
    z_samples: int = setting(10000, allowed.whole(0))
    checkpoint_seconds: float = setting(120.0, allowed.number(at_least=0))


@dataclass(frozen=True)
class EvaluationRecipe:
    """How the finished model is measured."""

    samples: tuple[int, ...] = setting((1, 10, 100, 1000), allowed.sizes("numbers K"))
    z_samples: int = setting(1000000, allowed.whole(0))
    z_inner: int = setting(1, allowed.whole(1))
    ess_samples: int = setting(10000, allowed.whole(0))
    ess_examples: int = setting(1000, allowed.whole(0))


SECTIONS = {"model": ModelRecipe, "training": TrainingRecipe, "monitor": MonitorRecipe,
            "evaluation": EvaluationRecipe}


@dataclass(frozen=True)
class Recipe:
    """One experiment, complete: with a data set and an engine it determines every number."""

    dataset: str = setting("", allowed.text("the name of a data set or the path of an .hdf5"))
    seed: int = setting(0, allowed.whole(0))
    title: str = setting("", allowed.text("a line of text", empty=True))
    model: ModelRecipe = field(default_factory=ModelRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    phases: tuple[Phase, ...] = PAPER_PHASES
    monitor: MonitorRecipe = field(default_factory=MonitorRecipe)
    evaluation: EvaluationRecipe = field(default_factory=EvaluationRecipe)

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Recipe:
        """Read the recipe at ``path``, then apply ``overrides`` such as ``model.layers=[9, 3]``."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such recipe") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as a recipe: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path}: is not valid TOML: {error}") from None
        return cls.from_dict(content, source=str(path), overrides=overrides)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], source: str = "recipe",
                  overrides: Iterable[str] = ()) -> Recipe:
        """Check ``content`` (as read from TOML) and make a recipe of it."""
        content = copy.deepcopy(dict(content))
        for override in overrides:
            _override(content, override)
        known = [item.name for item in fields(cls)]
        _refuse_unknown(content, known, "", source)
        values: dict[str, Any] = {}
        for name in ("dataset", "seed", "title"):
            values[name] = _checked(cls, name, content, "", source)
        for name, kind in SECTIONS.items():
            values[name] = _section(kind, content.get(name, {}), name, source)
        if "phases" in content:
            values["phases"] = _phases(content["phases"], source)
        recipe = cls(**values)
        _check_together(recipe, source)
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Return every setting as plain lists, tables and scalars, unset optional ones left out."""
        return _plain(asdict(self))

    def to_toml(self) -> str:
        """Write out every setting, so that a frozen recipe outlives a change of the defaults."""
        content = self.to_dict()
        lines = [f"{key} = {_toml(content[key])}" for key in ("dataset", "seed", "title")]
        for name in SECTIONS:
            if name == "monitor":
                for phase in content["phases"]:
                    lines += ["", "[[phases]]", *_toml_table(phase)]
            lines += ["", f"[{name}]", *_toml_table(content[name])]
        return "\n".join(lines) + "\n"

    def fingerprint(self) -> str:
        """Return the SHA-256 of what decides the trained model and its log.

        The title, the settings of the final evaluation and the seconds between checkpoints
        change neither, so a run folder stays valid when they change.
        """
        content = self._deciding()
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _deciding(self) -> dict[str, Any]:
        content = self.to_dict()
        del content["title"], content["evaluation"], content["monitor"]["checkpoint_seconds"]
        return content

    def changes(self, other: Recipe) -> dict[str, tuple[Any, Any]]:
        """Return the settings that make the fingerprints differ: ``a.b`` to mine and theirs.

        Where one has more phases, their number differs and the others' settings count.
        """
        mine, theirs = self._deciding(), other._deciding()
        common = min(len(self.phases), len(other.phases))
        for content in (mine, theirs):
            content["number of phases"] = len(content["phases"])
            content["phases"] = dict(enumerate(content["phases"][:common]))
        mine, theirs = _flat(mine), _flat(theirs)
        return {name: (mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs})
                if mine.get(name) != theirs.get(name)}

    def differences(self, other: Recipe) -> list[str]:
        """Name the settings that make the fingerprints differ, as ``a.b: mine, not theirs``."""
        return [f"{name}: {mine!r}, not {theirs!r}"
                for name, (mine, theirs) in self.changes(other).items()]


def find_recipe(name: str) -> Path:
    """Return the path of a recipe given as a path or as a name in ``run_exps/``.

    >>> find_recipe("rws/mnist")    # doctest: +SKIP
    PosixPath('run_exps/rws/mnist.toml')
    """
    if name.endswith(".toml"):
        return Path(name)
    folders = [Path("run_exps"), Path(__file__).resolve().parent.parent / "run_exps"]
    for folder in folders:
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    known = sorted({path.relative_to(folder).with_suffix("").as_posix()
                    for folder in folders for path in folder.rglob("*.toml")})
    raise InputError(f"{name}: no such recipe in run_exps/{_suggestion(name, known)}; "
                     f"give a path ending in .toml or one of {', '.join(known)}")


def _override(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError(f"--set {override}: write it as section.field=value, "
                         "such as model.layers=[200,100]")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *path, last = key.split(".")
    if path and path[0] == "phases":
        content.setdefault("phases", [_plain(asdict(phase)) for phase in PAPER_PHASES])
    place: Any = content
    for step in path:
        if isinstance(place, list):
            place = _phase_at(place, step, override)
        else:
            place = place.setdefault(step, {})
        if not isinstance(place, (dict, list)):
            raise InputError(f"--set {override}: {step} is a value, not a section")
    if isinstance(place, list):
        raise InputError(f"--set {override}: say which setting of phase {last}, "
                         f"such as phases.{last}.samples=10")
    place[last] = value


def _phase_at(phases: list[Any], step: str, override: str) -> Any:
    if not step.isdigit() or int(step) >= len(phases):
        raise InputError(f"--set {override}: there is no phase {step}; "
                         f"the recipe's phases are 0 to {len(phases) - 1}")
    return phases[int(step)]


def _section(kind: type, content: Any, name: str, source: str) -> Any:
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: {name} = {content!r}: must be a table of settings")
    _refuse_unknown(content, [item.name for item in fields(kind)], name, source)
    return kind(**{item.name: _checked(kind, item.name, content, name, source)
                   for item in fields(kind)})


def _phases(content: Any, source: str) -> tuple[Phase, ...]:
    if not isinstance(content, (list, tuple)) or not content:
        raise InputError(f"{source}: phases = {content!r}: must be one or more [[phases]] tables")
    return tuple(_section(Phase, phase, f"phases.{index}", source)
                 for index, phase in enumerate(content))


def _checked(kind: type, name: str, content: Mapping[str, Any], section: str, source: str) -> Any:
    item = next(item for item in fields(kind) if item.name == name)
    if name not in content:
        return item.default
    rule: Setting = item.metadata["setting"]
    try:
        return rule.convert(content[name])
    except (TypeError, ValueError, OverflowError):
        where = f"{section}.{name}" if section else name
        near = _suggestion(content[name], rule.choices)
        raise InputError(f"{source}: {where} = {content[name]!r}: must be "
                         f"{rule.allowed}{near}") from None


def _refuse_unknown(content: Mapping[str, Any], known: list[str], section: str,
                    source: str) -> None:
    for key in content:
        if key not in known:
            where = f"{section}.{key}" if section else key
            raise InputError(f"{source}: {where}: unknown setting{_suggestion(key, known)}; "
                             f"known here: {', '.join(known)}")


def _check_together(recipe: Recipe, source: str) -> None:
    model = recipe.model
    if not recipe.dataset:
        raise InputError(f"{source}: dataset is missing: give the name of a data set "
                         "or the path of an .hdf5")
    if not model.layers:
        raise InputError(f"{source}: model.layers is missing: give the latent layer sizes "
                         "from the data up, such as [200, 100, 50]")
    if model.hidden and model.kind in ("bihm", "rws"):
        raise InputError(f"{source}: model.hidden = {list(model.hidden)!r}: must be [] for a "
                         f"{model.kind}, whose conditionals have no deterministic layers")
    nested = model.hidden and isinstance(model.hidden[0], tuple)
    if nested and len(model.hidden) != len(model.layers):
        raise InputError(f"{source}: model.hidden has {len(model.hidden)} lists: must be one "
                         f"list for all latent layers or one for each of the {len(model.layers)}")


def _suggestion(value: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(value), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat.update(_flat(item, f"{prefix}.{key}" if prefix else key))
    return flat


def _toml_table(content: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in content.items()]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)
