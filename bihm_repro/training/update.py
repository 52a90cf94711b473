"""The compiled update: one mini-batch of Algorithm 1, its penalties and its step rule.

For a mini-batch x, Algorithm 1 gives the gradient of the summed objective (equation 6); to it the
penalties on the weights are added, and a step rule turns it into new parameters. K (``samples``)
is part of the compiled function; the learning rate and the random counter are shared variables, so
that a schedule needs no second compilation and the random numbers continue where they stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import T, shared, step_function
from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.training.step import build_step

__all__ = ["Update", "compile_update"]


class Update:
    """A compiled update; call it with a mini-batch to take one step."""

    def __init__(
        self,
        compiled: Any,
        monitors: list[str],
        rate: Any,
        counter: Any,
        state: list[Any],
        averages: Mapping[str, Any] | None = None,
        model_state: Sequence[Any] = (),
    ) -> None:
        """Keep the ``compiled`` steps and the shared variables they work on.

        ``averages`` are running means, by the name of the parameter that each is the mean of;
        ``model_state`` is ``TrainingGraph.state``.
        """
        self._compiled = compiled
        self._monitors = monitors
        self._rate = rate
        self._counter = counter
        self._state = {variable.name: variable for variable in [*state, *model_state]}
        self._initial = {item.name: np.array(item.get_value()) for item in model_state}
        self._averages = averages or {}

    def __call__(self, x: np.ndarray) -> dict[str, float]:
        """Take one step on ``x`` of shape ``(batch, data_dim)``; returns sums over the batch."""
        return self.steps([x])[0]

    def steps(self, batches: Sequence[np.ndarray]) -> list[dict[str, float]]:
        """Take a step on each of ``batches`` in turn; returns what a call with each would."""
        found = self._compiled([np.asarray(x, dtype=np.float32) for x in batches])
        return [
            {name: float(value) for name, value in zip(self._monitors, values)} for values in found
        ]

    @property
    def group_size(self) -> int:
        """How many mini-batches to pass to the next call of :meth:`steps`.

        It affects speed only: how batches are grouped changes no bit of any result.
        """
        return self._compiled.group_size

    @group_size.setter
    def group_size(self, value: int) -> None:
        self._compiled.group_size = value

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return float(self._rate.get_value())

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._rate.set_value(np.float32(value))

    @property
    def counter(self) -> int:
        """The counter of the next random numbers."""
        return int(self._counter.get_value())

    @counter.setter
    def counter(self, value: int) -> None:
        self._counter.set_value(np.int64(value))

    @property
    def averages(self) -> dict[str, np.ndarray]:
        """The running means of all parameters, by name; empty where none are kept."""
        return {name: np.array(mean.get_value()) for name, mean in self._averages.items()}

    def restart(self, counter: int) -> None:
        """Reset the step rule to zeros, the model's state to its start, and the counter.

        The next phase can then use the same compiled function where only its rate differs.
        """
        self.counter = counter
        for name, variable in self._state.items():
            zeros = np.zeros_like(variable.get_value(borrow=True))
            variable.set_value(self._initial.get(name, zeros))

    def get_state(self) -> dict[str, np.ndarray]:
        """Return the step rule's variables, by name."""
        return {name: np.array(item.get_value()) for name, item in self._state.items()}

    def set_state(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the step rule's variables to what :meth:`get_state` returned."""
        for name, variable in self._state.items():
            old = variable.get_value(borrow=True)
            variable.set_value(np.asarray(values[name], dtype=old.dtype).reshape(old.shape))


def compile_update(
    model: Any,
    training: TrainingRecipe,
    phase: Phase,
    seed: int,
    first_counter: int = 0,
    image_shape: tuple[int, int] | None = None,
) -> Update:
    """Compile one update of ``model`` for ``phase``.

    Random numbers depend on ``seed`` and on a counter that begins with ``first_counter``.
    ``image_shape`` is (height, width) of an example, where examples are images.
    """
    x = T.matrix("x", dtype="float32")
    rate = shared(np.float32(phase.rate_at(0)), name="learning_rate")
    counter = shared(np.int64(first_counter), name="counter")
    training = phase.applied_to(training)
    options = model.training_options(training)
    if phase.above:
        options["above"] = phase.above
    graph = model.training_graph(x, phase.samples, seed, counter, **options)
    parameters = [parameter for parameter in model.parameters if parameter in graph.gradients]
    if training.centred and not graph.input_means:
        raise InputError(
            f"training.centred = true: a {model.kind} model has no layers of binary "
            "units to centre; set it to false"
        )
    step, averages = build_step(
        parameters,
        graph.gradients,
        [weights for weights in model.weights if weights in graph.gradients],
        rate,
        training,
        phase.average_over,
        graph.input_means,
        image_shape,
    )
    updates = [*step.updates, *graph.updates, (counter, counter + np.int64(graph.counters))]
    compiled = step_function(x, list(graph.monitors.values()), updates, name="the update")
    return Update(
        compiled,
        list(graph.monitors),
        rate,
        counter,
        step.state,
        {w.name: mean for w, mean in averages.means.items()} if averages else {},
        graph.state,
    )
