"""Algorithm 1 as one would first write it: `tensor.grad` through a plain graph.

x is repeated K times, probabilities are clipped to [1e-6, 1 - 1e-6], samples come from the
engine's own generator, weights and samples are constants to the differentiation, and Adam is
written out symbolically. The other contenders compute the same numbers with less work.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.architectures import TINY, Case
from benchmarks.problem import (
    ADAM,
    L1,
    batches,
    gradient_reference,
    initial_parameters,
    relative_error,
    uniforms,
)
from benchmarks.worker import main
from bihm_repro.engine.symbolic import T, function, grad, shared

__all__ = ["Textbook", "training_cost"]

CLIP = 1e-6


def _log_probability(values, probability):
    return T.sum(values * T.log(probability) + (1 - values) * T.log(1 - probability), axis=1)


def _conditional(parameters, name, values):
    logits = T.dot(values, parameters[f"{name}.W"]) + parameters[f"{name}.b"]
    return T.clip(T.nnet.sigmoid(logits), CLIP, 1 - CLIP)


def training_cost(parameters: dict, x, samples: int, depth: int, uniform) -> tuple:
    """(cost, constants, monitors) of the mini-batch `x` (batch, data_dim).

    `uniform(layer, shape)` gives the uniform numbers of a latent layer, (batch * samples, units).
    """
    states, log_q, log_p = [T.extra_ops.repeat(x, samples, axis=0)], 0.0, 0.0
    for layer in range(depth):
        probability = _conditional(parameters, f"q{layer}", states[-1])
        drawn = T.cast(uniform(layer, probability.shape) < probability, "float32")
        log_q = log_q + _log_probability(drawn, probability)
        states.append(drawn)
    for layer in range(depth):
        probability = _conditional(parameters, f"p{layer}", states[layer + 1])
        log_p = log_p + _log_probability(states[layer], probability)
    prior = T.clip(T.nnet.sigmoid(parameters[f"p{depth}.b"]), CLIP, 1 - CLIP)
    log_p = log_p + _log_probability(states[depth], prior)
    log_r = (log_p - log_q).reshape((x.shape[0], samples))
    weights = T.nnet.softmax(log_r / 2)
    centred = weights - np.float32(1.0 / samples)
    cost = -T.sum(weights.flatten() * log_p) - T.sum(centred.flatten() * log_q)
    count = np.float32(np.log(samples))
    monitors = [T.sum(_log_sum_exp(log_r) - count), 2 * T.sum(_log_sum_exp(log_r / 2) - count)]
    return cost, [weights, centred, *states], monitors


def _log_sum_exp(values):
    top = T.max(values, axis=1, keepdims=True)
    return T.log(T.sum(T.exp(values - top), axis=1)) + top.flatten()


def _adam(parameters: list, gradients: list) -> list:
    step = shared(np.float32(0), name="step")
    now = step + 1
    beta1, beta2 = ADAM["beta1"], ADAM["beta2"]
    rate = ADAM["rate"] * T.sqrt(1 - beta2**now) / (1 - beta1**now)
    updates = [(step, now)]
    for parameter, gradient in zip(parameters, gradients):
        first = shared(np.zeros_like(parameter.get_value()))
        second = shared(np.zeros_like(parameter.get_value()))
        new_first = beta1 * first + (1 - beta1) * gradient
        new_second = beta2 * second + (1 - beta2) * gradient**2
        change = rate * new_first / (T.sqrt(new_second) + ADAM["epsilon"])
        updates += [(first, new_first), (second, new_second), (parameter, parameter - change)]
    return updates


def _parameters(case: Case) -> dict:
    return {name: shared(value, name=name) for name, value in initial_parameters(case).items()}


class Textbook:
    """The textbook contender; it knows the task `update` only."""

    def check(self) -> float:
        """Largest relative error of the gradients against numpy, on the tiny case."""
        parameters, x = _parameters(TINY), batches(TINY, 1)[0]
        draws = uniforms(TINY)
        rows = TINY.batch * TINY.samples
        given = T.matrix("x", dtype="float32")
        cost, constants, _ = training_cost(
            parameters, given, TINY.samples, TINY.depth, lambda i, _: draws[i].reshape(rows, -1)
        )
        gradients = grad(cost, list(parameters.values()), consider_constant=constants)
        found = dict(zip(parameters, function([given], gradients)(x)))
        return relative_error(found, gradient_reference(initial_parameters(TINY), x, draws)[0])

    def prepare(self, task: str, case: Case):
        """A function that runs `count` updates."""
        if task != "update":
            raise ValueError(f"the textbook graph has no task {task!r}")
        from theano.sandbox.rng_mrg import MRG_RandomStream

        stream = MRG_RandomStream(seed=1)
        parameters = _parameters(case)
        x = T.matrix("x", dtype="float32")
        cost, constants, monitors = training_cost(
            parameters, x, case.samples, case.depth, lambda _, shape: stream.uniform(shape)
        )
        weights = [value for name, value in parameters.items() if name.endswith(".W")]
        cost = cost + np.float32(L1) * sum(T.sum(abs(weight)) for weight in weights)
        values = list(parameters.values())
        gradients = grad(cost, values, consider_constant=constants)
        update = function([x], monitors, updates=_adam(values, gradients))
        data = batches(case, 8)

        def run(count: int) -> None:
            for number in range(count):
                update(data[number % len(data)])

        return run


if __name__ == "__main__":
    sys.exit(main(Textbook))
