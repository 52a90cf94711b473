"""One step on the parameters: centring, penalties, clipping, the step rule, Polyak averages.

The gradients are those of the sum over the mini-batch; ``l1 * sum|W| + l2 * sum W^2`` is added to
that sum, and biases are not penalised. In this order:

1. centre: G - c g^T takes the place of the gradient G of the weights of a linear map a W + b,
   where g is the gradient of b and c the running mean of its inputs a
2. add the gradients of the penalties (see ``total_variation`` for the one on images), clip all
   gradients together
3. apply the step rule; with ``l1_step = "proximal"``, move the weights towards zero
4. subtract c^T (W_new - W_old) from the new bias: together with 1, the update of the
   parametrisation (a - c) W + b' (enhanced gradient, Cho et al. 2011; centring, Montavon and
   Mueller 2012; Melchior et al. 2016), which does not depend on which state of a unit is called 1
5. update the averages

``plain_step`` builds this from symbolic expressions and serves every rule; ``fused_step`` is Adam
with all of it in one pass over memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import T, shared
from bihm_repro.ops.adam import adam_update, centred_adam_update, upper_triangle
from bihm_repro.recipes.recipe import TrainingRecipe
from bihm_repro.training.step_rules import RULES, Step, adam_rate, clipped, zeros_like
from bihm_repro.training.total_variation import with_total_variation

__all__ = ["Averages", "Centres", "Penalty", "build_step", "fused_step", "plain_step"]

CENTRE_DECAY = 0.99

# PyTensor's name, and theano's.
_sign = getattr(T, "sign", None) or T.sgn


@dataclass(frozen=True)
class Penalty:
    """L1 and L2 on ``weights``; ``proximal`` applies L1 as a soft threshold of rate * l1."""

    weights: Sequence[Any] = ()
    l1: float = 0.0
    l2: float = 0.0
    proximal: bool = False

    def of(self, parameter: Any) -> tuple[float, float]:
        """Return (l1, l2) of ``parameter``, zero where it is not penalised."""
        penalised = any(parameter is weight for weight in self.weights)
        return (self.l1, self.l2) if penalised else (0.0, 0.0)

    def scalars(self, parameter: Any, rate: Any) -> dict[str, Any]:
        """Return ``l1`` and ``l2`` as the fused Ops take them."""
        l1, l2 = self.of(parameter)
        return {"l1": rate * np.float32(l1) if self.proximal else l1, "l2": 2 * l2}

    def gradient(self, parameter: Any, gradient: Any) -> Any:
        """Add the gradient of the penalty on ``parameter``."""
        l1, l2 = self.of(parameter)
        if l1 and not self.proximal:
            gradient = gradient + np.float32(l1) * _sign(parameter)
        return gradient + np.float32(2 * l2) * parameter if l2 else gradient

    def shrink(self, parameter: Any, new: Any, rate: Any) -> Any:
        """Apply the proximal step of L1 to the ``new`` value of ``parameter``."""
        l1, _ = self.of(parameter)
        if not (l1 and self.proximal):
            return new
        return _sign(new) * T.maximum(abs(new) - rate * np.float32(l1), np.float32(0))


class Centres:
    """Running means of the inputs of linear maps, as shared variables that a checkpoint keeps.

    The mean of all mini-batches for the first 100 updates, then one with a decay of 0.99. The
    current mini-batch is included, so initial values do not matter.

    Parameters
    ----------
    input_means : weights W to (bias b, mean of the inputs over the rows of the mini-batch)
    """

    def __init__(self, input_means: Mapping[Any, tuple[Any, Any]]) -> None:
        count = shared(np.int64(0), name="centre.count")
        weight = _running_weight(count, 1 - CENTRE_DECAY)
        self.updates: list[tuple[Any, Any]] = [(count, count + 1)] if input_means else []
        self.new: dict[Any, Any] = {}
        self.biases: dict[Any, Any] = {}
        for weights, (bias, mean) in input_means.items():
            inputs = weights.get_value(borrow=True).shape[0]
            centre = shared(np.zeros(inputs, weights.dtype), name=f"centre.{weights.name}")
            self.biases[weights] = bias
            self.new[weights] = centre + T.cast(weight, weights.dtype) * (mean - centre)
            self.updates.append((centre, self.new[weights]))

    @property
    def state(self) -> list[Any]:
        """The shared variables."""
        return [variable for variable, _ in self.updates]


@dataclass
class Averages:
    """Polyak averages (Polyak and Juditsky, 1992) of ``parameters``.

    The mean of all values for the first ``over`` updates, then a mean whose weights decay by
    1 / ``over`` per update. The averages have no part in the steps.
    """

    parameters: Sequence[Any]
    over: int
    means: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.means = {w: zeros_like(w, "average") for w in self.parameters}
        self.count = shared(np.int64(0), name="average.count")
        self.weight = T.cast(_running_weight(self.count, 1.0 / self.over), "float32")

    @property
    def state(self) -> list[Any]:
        """The shared variables."""
        return [self.count, *self.means.values()]


def _running_weight(count: Any, smallest: float) -> Any:
    """Return the weight of the next value in a running mean, float64."""
    return T.maximum(smallest, 1.0 / T.cast(count + 1, "float64"))


def build_step(
    parameters: Sequence[Any],
    gradients: Mapping[Any, Any],
    weights: Sequence[Any],
    rate: Any,
    training: TrainingRecipe,
    average_over: int | None,
    input_means: Mapping[Any, tuple[Any, Any]],
    image_shape: tuple[int, int] | None = None,
) -> tuple[Step, Averages | None]:
    """Return the step that ``training`` asks for, and its averages over so many updates, if any.

    ``image_shape`` is (height, width) of an example, where examples are images.
    """
    if training.total_variation:
        gradients = with_total_variation(gradients, image_shape, training.total_variation)
    if training.l1_levels is not None:
        weights = [w for w in weights if _level(w) < training.l1_levels]
    if training.l1_side != "both":
        weights = [w for w in weights if w.name.startswith(training.l1_side)]
    penalty = Penalty(weights, training.l1, training.l2, training.l1_step == "proximal")
    centres = Centres(input_means if training.centred else {})
    averages = Averages(parameters, average_over) if average_over else None
    ordered = [gradients[parameter] for parameter in parameters]
    if training.step_rule == "adam" and not training.clip_norm:
        step = fused_step(parameters, ordered, rate, penalty, centres, averages)
    else:
        step = plain_step(
            RULES[training.step_rule],
            parameters,
            ordered,
            rate,
            penalty,
            centres,
            averages,
            training.clip_norm,
        )
    return step, averages


def _level(weights: Any) -> int:
    """Return the level of a parameter named such as ``p3.W`` or ``q0.mlp.hidden1.W``."""
    found = re.match(r"[a-z]+(\d+)\.", weights.name)
    return int(found.group(1)) if found else 0


def _full_rows(weights: Any) -> int | None:
    """Return the row from which on ``weights`` are strictly upper triangular, if any."""
    return getattr(weights.tag, "full_rows", None)


def _triangular(weights: Any, gradient: Any) -> Any:
    full_rows = _full_rows(weights)
    if full_rows is None:
        return gradient
    rows, columns = weights.get_value(borrow=True).shape
    return gradient * upper_triangle(rows, columns, full_rows, weights.dtype)


def plain_step(
    rule: Any,
    parameters: Sequence[Any],
    gradients: Sequence[Any],
    rate: Any,
    penalty: Penalty,
    centres: Centres,
    averages: Averages | None = None,
    clip_norm: float = 0.0,
) -> Step:
    """Return the step of any rule, built from symbolic expressions."""
    of = dict(zip(parameters, gradients))
    for w, bias in centres.biases.items():
        of[w] = of[w] - _triangular(w, centres.new[w].dimshuffle(0, "x") * of[bias])
    ready = [penalty.gradient(w, of[w]) for w in parameters]
    step = rule(parameters, clipped(ready, clip_norm) if clip_norm else ready, rate)
    new = dict(step.updates)
    for w in parameters:
        new[w] = penalty.shrink(w, new[w], rate)
    for w, bias in centres.biases.items():
        new[bias] = new[bias] - (centres.new[w].dimshuffle(0, "x") * (new[w] - w)).sum(axis=0)
    updates, state = [*new.items(), *centres.updates], [*step.state, *centres.state]
    if averages is not None:
        updates += [(averages.count, averages.count + 1)]
        updates += [
            (mean, mean + averages.weight * (new[w] - mean)) for w, mean in averages.means.items()
        ]
        state += averages.state
    return Step(updates, state)


def fused_step(
    parameters: Sequence[Any],
    gradients: Sequence[Any],
    rate: Any,
    penalty: Penalty,
    centres: Centres,
    averages: Averages | None = None,
) -> Step:
    """Return a step of Adam with one pass over memory for each linear map or parameter."""
    count, rate_now = adam_rate(rate)
    of = dict(zip(parameters, gradients))
    states = {w: [w, zeros_like(w, "adam.first"), zeros_like(w, "adam.second")] for w in parameters}
    updates: list[tuple[Any, Any]] = [(count, count + 1)]
    state = [count, *(v for w in parameters for v in states[w][1:])]
    settings: dict[str, Any] = {"proximal": penalty.proximal}
    if averages is not None:
        settings["average_weight"] = averages.weight
        updates.append((averages.count, averages.count + 1))
        state += averages.state
        for w, mean in averages.means.items():
            states[w].append(mean)
    updates += centres.updates
    state += centres.state
    alone = [
        w
        for w in parameters
        if w not in centres.biases and not any(w is b for b in centres.biases.values())
    ]
    for w in alone:
        new = adam_update(states[w], of[w], rate_now, **penalty.scalars(w, rate), **settings)
        updates += list(zip(states[w], new))
    for w, bias in centres.biases.items():
        gradients_and_centre = of[w], of[bias], centres.new[w]
        options = {**penalty.scalars(w, rate), **settings, "full_rows": _full_rows(w)}
        new = centred_adam_update(
            states[w], states[bias], gradients_and_centre, rate_now, **options
        )
        updates += list(zip([*states[w], *states[bias]], new))
    return Step(updates, state)
