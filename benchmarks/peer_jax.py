"""Algorithm 1 written by hand in JAX: one jitted function an update, its buffers donated.

Gradients are closed-form residuals, q(h1|x) is computed once per x, nothing is clipped. Rows are
ordered (samples, batch), so that what an x shares is broadcast along the leading axis; products
are of plain matrices, which XLA hands to its fastest routine.
"""

from __future__ import annotations

import sys
from functools import partial

import jax
import jax.numpy as jnp
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

__all__ = ["JaxPeer", "gradients"]


def _softplus_and_sigmoid(logits):
    """Both from one exponential; exact for logits of any size."""
    small = jnp.exp(-jnp.abs(logits))
    inverse = 1.0 / (1.0 + small)
    softplus = jnp.maximum(logits, 0.0) + jnp.log(1.0 + small)
    return softplus, jnp.where(logits >= 0, inverse, small * inverse)


def _infer(parameters, x, draws):
    """Layers (rows, units) with x first, log q (rows,), residuals; q0's is (sigmoid, sample)."""
    samples, batch, _ = draws[0].shape
    logits = x @ parameters["q0.W"] + parameters["q0.b"]
    softplus, mean = _softplus_and_sigmoid(logits)
    first = (draws[0] < mean).astype(jnp.float32)
    log_q = ((first * logits).sum(-1) - softplus.sum(-1)).reshape(-1)
    states, residuals = [x, first.reshape(samples * batch, -1)], {"q0": (mean, first)}
    for layer in range(1, len(draws)):
        logits = states[-1] @ parameters[f"q{layer}.W"] + parameters[f"q{layer}.b"]
        softplus, mean = _softplus_and_sigmoid(logits)
        states.append((draws[layer].reshape(mean.shape) < mean).astype(jnp.float32))
        log_q = log_q + (states[-1] * logits - softplus).sum(-1)
        residuals[f"q{layer}"] = mean - states[-1]
    return states, log_q, residuals


def _score(parameters, states, shape):
    """log p(x, h) (rows,) and residuals by name; `shape` is (samples, batch)."""
    depth = len(states) - 1
    logits = parameters[f"p{depth}.b"]
    softplus, mean = _softplus_and_sigmoid(logits)
    log_p = states[depth] @ logits - softplus.sum()
    residuals = {f"p{depth}": mean - states[depth]}
    for layer in range(depth):
        logits = states[layer + 1] @ parameters[f"p{layer}.W"] + parameters[f"p{layer}.b"]
        if layer == 0:
            logits = logits.reshape(*shape, -1)
        softplus, mean = _softplus_and_sigmoid(logits)
        log_p = log_p + (states[layer] * logits - softplus).sum(-1).reshape(-1)
        residuals[f"p{layer}"] = (mean - states[layer]).reshape(log_p.shape[0], -1)
    return log_p, residuals


def gradients(parameters, x, draws):
    """Descent gradients by name, and the monitors; draws are (samples, batch, units) each."""
    depth, (samples, batch, _) = len(draws), draws[0].shape
    states, log_q, residuals = _infer(parameters, x, draws)
    log_p, of_p = _score(parameters, states, (samples, batch))
    log_r = (log_p - log_q).reshape(samples, batch)
    half = jax.nn.logsumexp(log_r / 2, axis=0)
    weights = jnp.exp(log_r / 2 - half)
    centred = weights - 1.0 / samples

    mean, first = residuals.pop("q0")
    summed = ((mean - first) * centred[..., None]).sum(0)
    found = {"q0.W": x.T @ summed, "q0.b": summed.sum(0)}
    found[f"p{depth}.b"] = weights.reshape(-1) @ of_p.pop(f"p{depth}")
    for name, residual in {**residuals, **of_p}.items():
        source = states[int(name[1:]) + (name[0] == "p")]
        scaled = residual * (centred if name[0] == "q" else weights).reshape(-1, 1)
        found[f"{name}.W"], found[f"{name}.b"] = source.T @ scaled, scaled.sum(0)
    monitors = {
        "log_p": (jax.nn.logsumexp(log_r, axis=0) - np.log(samples)).sum(),
        "log_p_tilde_star": 2 * (half - np.log(samples)).sum(),
    }
    return found, monitors


def _adam(parameters, moments, found, step):
    rate = ADAM["rate"] * jnp.sqrt(1 - ADAM["beta2"] ** step) / (1 - ADAM["beta1"] ** step)
    after, moments_after = {}, {}
    for name, value in parameters.items():
        gradient = found[name] + (L1 * jnp.sign(value) if name.endswith(".W") else 0.0)
        first = ADAM["beta1"] * moments[name][0] + (1 - ADAM["beta1"]) * gradient
        second = ADAM["beta2"] * moments[name][1] + (1 - ADAM["beta2"]) * gradient**2
        after[name] = value - rate * first / (jnp.sqrt(second) + ADAM["epsilon"])
        moments_after[name] = (first, second)
    return after, moments_after


@partial(jax.jit, static_argnames="case", donate_argnames="state")
def _update(state, x, case: Case):
    parameters, moments, step, key, _ = state
    key, *keys = jax.random.split(key, case.depth + 1)
    draws = [
        jax.random.uniform(key, (case.samples, case.batch, units))
        for key, units in zip(keys, case.layers)
    ]
    found, monitors = gradients(parameters, x, draws)
    step = step + 1
    parameters, moments = _adam(parameters, moments, found, step)
    return parameters, moments, step, key, monitors


class JaxPeer:
    """The JAX contender; it knows the task `update` only."""

    def check(self) -> float:
        """Largest relative error of the gradients against numpy, on the tiny case."""
        parameters, x = initial_parameters(TINY), batches(TINY, 1)[0]
        draws = uniforms(TINY)
        expected, _ = gradient_reference(parameters, x, draws)
        found, _ = jax.jit(gradients)(parameters, x, [draw.swapaxes(0, 1) for draw in draws])
        return relative_error(found, expected)

    def prepare(self, task: str, case: Case):
        """A function that runs `count` updates."""
        if task != "update":
            raise ValueError(f"the JAX peer has no task {task!r}")
        data = [jnp.asarray(x) for x in batches(case, 8)]
        parameters = {n: jnp.asarray(v) for n, v in initial_parameters(case).items()}
        moments = {n: (jnp.zeros_like(v), jnp.zeros_like(v)) for n, v in parameters.items()}
        monitors = {"log_p": jnp.zeros(()), "log_p_tilde_star": jnp.zeros(())}
        key = jax.random.key(0, impl="threefry2x32")
        state = [(parameters, moments, jnp.zeros(()), key, monitors)]

        def run(count: int) -> None:
            for number in range(count):
                state[0] = _update(state[0], data[number % len(data)], case)
            jax.block_until_ready(state[0])

        return run


if __name__ == "__main__":
    sys.exit(main(JaxPeer))
