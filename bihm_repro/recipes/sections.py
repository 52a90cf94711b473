"""The sections of a recipe: each setting with its default, its rule and its meaning.

The defaults are those of the paper's experiments (section 4). To add a setting, declare it with
``later=True`` (see :func:`~bihm_repro.recipes.fields.setting`): recipes that do not use it, and the
runs made with them, then keep their fingerprints.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Optional

from bihm_repro.bricks import registry as layer_types
from bihm_repro.models import registry as models
from bihm_repro.recipes.fields import (
    boolean,
    hidden_sizes,
    integer,
    number,
    one_of,
    registered,
    schedule,
    setting,
    sizes,
    text,
)

__all__ = [
    "EvaluationRecipe",
    "InitialRecipe",
    "ModelRecipe",
    "MonitorRecipe",
    "PAPER_PHASES",
    "Phase",
    "SECTIONS",
    "TrainingRecipe",
]


@dataclass(frozen=True)
class ModelRecipe:
    """The model: which kind, how large, and the initial values of its parameters."""

    kind: str = setting(models.DEFAULT, registered(models.kinds), "the kind of model")
    layers: tuple[int, ...] = setting(
        (), sizes("latent layer sizes from the data up"), "latent layer sizes from the data up"
    )
    hidden: tuple[Any, ...] = setting(
        (), hidden_sizes(), "deterministic layers between latent ones (vae, iwae)"
    )
    activation: str = setting(
        "relu", one_of("tanh", "relu", "logistic"), "nonlinearity of the deterministic layers"
    )
    weights: str = setting(
        "glorot-over-fan-in",
        one_of("glorot-over-fan-in", "glorot", "gaussian"),
        "distribution of the initial weights",
    )
    weights_scale: float = setting(
        0.1, number(above=0), "standard deviation of gaussian initial weights"
    )
    bias: float = setting(-1.0, number(), "initial value of the biases")
    visible_bias: str = setting(
        "constant",
        one_of("constant", "data"),
        "initial biases of the data layer: bias, or the log-odds of the data's mean",
        later=True,
    )
    p_layer: Any = setting(
        layer_types.DEFAULT,
        registered(layer_types.names, by_level=True),
        "layer type of p's conditionals: one for all, or a list from the data up",
        later=True,
    )
    q_layer: Any = setting(
        layer_types.DEFAULT,
        registered(layer_types.names, by_level=True),
        "layer type of q's conditionals: one for all, or a list from the data up",
        later=True,
    )
    prior: str = setting(
        layer_types.DEFAULT,
        registered(layer_types.names),
        "layer type of the top prior",
        later=True,
    )
    nade_hidden: int = setting(100, integer(1), "hidden units of each nade layer", later=True)


@dataclass(frozen=True)
class TrainingRecipe:
    """What every phase shares: mini-batches, penalties and the step rule.

    The gradient is the sum over the mini-batch, and the penalties are added to that sum.
    """

    batch_size: int = setting(100, integer(1), "examples of a mini-batch")
    l1: float = setting(1e-3, number(at_least=0), "L1 penalty on the summed gradient")
    l2: float = setting(0.0, number(at_least=0), "L2 penalty on the summed gradient")
    control_variate: bool = setting(
        True, boolean(), "subtract 1/K from the importance weights in q's gradient"
    )
    sleep: float = setting(
        0.0,
        number(at_least=0),
        "weight of a sleep phase in q's gradient (bihm): 1 for as much as rws has",
        later=True,
    )
    step_rule: str = setting(
        "adam", one_of("adam", "rmsprop", "momentum", "sgd"), "how gradients become steps"
    )
    clip_norm: float = setting(
        0.0, number(at_least=0), "largest norm of a gradient; 0 for no limit"
    )
    centred: bool = setting(
        False,
        boolean(),
        "centre the inputs of every layer of binary units in the update",
        later=True,
    )
    l1_levels: Optional[int] = setting(  # noqa: UP045 (Python 3.9)
        None,
        integer(0),
        "penalize p and q of so many lowest levels only; all by default",
        later=True,
    )
    l1_side: str = setting(
        "both",
        one_of("both", "p", "q"),
        "penalize the weights of p, of q, or of both with L1 and L2",
        later=True,
    )
    l1_step: str = setting(
        "gradient",
        one_of("gradient", "proximal"),
        "L1 as a part of the gradient, or as a proximal step after it",
        later=True,
    )
    total_variation: float = setting(
        0.0,
        number(at_least=0),
        "penalty on the total variation of the weights to the pixels, where rows are images",
        later=True,
    )


@dataclass(frozen=True)
class Phase:
    """A part of training with one K; it starts from the best parameters so far."""

    samples: int = setting(10, integer(1), "K, the samples of q for each example")
    learning_rate: float = setting(1e-3, number(above=0), "learning rate", compiled=False)
    patience: int = setting(
        10,
        integer(1),
        "epochs without a better validation log p that end the phase",
        compiled=False,
    )
    max_epochs: int = setting(
        10000, integer(1), "epochs that end the phase in any case", compiled=False
    )
    learning_rates: tuple[tuple[float, int], ...] = setting(
        (), schedule(), "[learning rate, epochs] pairs, instead of learning_rate", compiled=False
    )
    batch_size: Optional[int] = setting(  # noqa: UP045 (Python 3.9)
        None, integer(1), "of this phase, instead of training.batch_size", compiled=False
    )
    l1: Optional[float] = setting(  # noqa: UP045
        None, number(at_least=0), "of this phase, instead of training.l1"
    )
    l1_levels: Optional[int] = setting(  # noqa: UP045
        None, integer(0), "of this phase, instead of training.l1_levels", later=True
    )
    l1_side: Optional[str] = setting(  # noqa: UP045
        None, one_of("both", "p", "q"), "of this phase, instead of training.l1_side", later=True
    )
    total_variation: Optional[float] = setting(  # noqa: UP045
        None, number(at_least=0), "of this phase, instead of training.total_variation", later=True
    )
    sleep: Optional[float] = setting(  # noqa: UP045
        None, number(at_least=0), "of this phase, instead of training.sleep", later=True
    )
    average_over: Optional[int] = setting(  # noqa: UP045
        None,
        integer(2),
        "measure and keep a Polyak average of the parameters over about so many updates",
    )
    restart_dead: bool = setting(
        False,
        boolean(),
        "give dead units new initial values at the start of this phase",
        later=True,
        compiled=False,
    )
    above: int = setting(
        0,
        integer(0),
        "train only the layers above this latent layer, on samples of q for it (bihm); 0: all",
        later=True,
    )
    restart_above: bool = setting(
        False,
        boolean(),
        "give the layers above it new initial values at the start of this phase, whose best "
        "parameters then are chosen from its own epochs",
        later=True,
        compiled=False,
    )
    valid_samples: Optional[int] = setting(  # noqa: UP045
        None, integer(1), "K of this phase's validation, instead of the monitor's", compiled=False
    )

    def applied_to(self, training: TrainingRecipe) -> TrainingRecipe:
        """Return ``training`` with what this phase sets instead.

        The penalty on images concerns the lowest layer alone.
        """
        own = {item.name: getattr(self, item.name, None) for item in fields(training)}
        if self.above:
            own["total_variation"] = 0.0
        return replace(training, **{name: v for name, v in own.items() if v is not None})

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
        """Epochs after which the phase ends in any case."""
        if self.learning_rates:
            return min(self.max_epochs, sum(epochs for _, epochs in self.learning_rates))
        return self.max_epochs

    @property
    def compiled_key(self) -> tuple[Any, ...]:
        """The values that a compiled update depends on; phases with equal ones can share it."""
        return tuple(getattr(self, item.name) for item in fields(self) if item.metadata["compiled"])


PAPER_PHASES = (Phase(), Phase(samples=100, learning_rate=3e-4))


@dataclass(frozen=True)
class MonitorRecipe:
    """What is measured while training, and how often (in epochs)."""

    valid_samples: int = setting(10, integer(1), "K of the validation log p")
    every: int = setting(1, integer(1), "epochs between validations")
    test_every: int = setting(10, integer(0), "epochs between test metrics; 0: never")
    test_samples: tuple[int, ...] = setting(
        (1, 10, 100, 1000), sizes("numbers K"), "numbers K of the test metrics"
    )
    test_examples: int = setting(1000, integer(0), "test examples for them; 0: all")
    z_samples: int = setting(10000, integer(0), "samples of 2 log Z among them")
    checkpoint_seconds: float = setting(
        120.0, number(at_least=0), "seconds between checkpoints", decides=False
    )
    units_every: int = setting(
        10, integer(0), "epochs between counts of active units; 0: never", later=True, decides=False
    )


@dataclass(frozen=True)
class EvaluationRecipe:
    """How the finished model is measured."""

    samples: tuple[int, ...] = setting(
        (1, 10, 100, 1000), sizes("numbers K"), "numbers K of log p", decides=False
    )
    z_samples: int = setting(1000000, integer(0), "samples of 2 log Z", decides=False)
    z_inner: int = setting(1, integer(1), "inner samples for each of them", decides=False)
    ess_samples: int = setting(10000, integer(0), "K of the effective sample size", decides=False)
    ess_examples: int = setting(
        1000, integer(0), "examples it is averaged over; 0: all", decides=False
    )


@dataclass(frozen=True)
class InitialRecipe:
    """Where the initial parameters come from, where they are those of another run."""

    source: str = setting(
        "",
        text("a run folder or a model.npz", empty=True),
        "run folder or model.npz",
        decides=False,
    )
    fingerprint: str = setting(
        "",
        text("the fingerprint of parameters", empty=True),
        "SHA-256 of the parameters",
        later=True,
    )


SECTIONS = {
    "model": ModelRecipe,
    "training": TrainingRecipe,
    "monitor": MonitorRecipe,
    "evaluation": EvaluationRecipe,
    "initial": InitialRecipe,
}
