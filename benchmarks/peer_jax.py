"""Algorithm 1 written by hand in JAX: one jitted function an update, its buffers donated.

Gradients are closed-form residuals, q(h1|x) is computed once per x, nothing is clipped. States
are (samples, batch, units), so that what an x shares is broadcast along the leading axis.
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


def _sample(logits, draw):
    """Sample, row log-probability and residual; `draw(shape)` gives uniform numbers."""
    probability = jax.nn.sigmoid(logits)
    values = (draw < probability).astype(jnp.float32)
    row = (values * logits).sum(-1) - jax.nn.softplus(logits).sum(-1)
    return values, row, probability - values


def _log_prob(values, logits):
    row = (values * logits).sum(-1) - jax.nn.softplus(logits).sum(-1)
    return row, jax.nn.sigmoid(logits) - values


def _product(left, right):
    """left' right over samples and batch: (samples, batch, i), (samples, batch, j) -> (i, j)."""
    return jnp.tensordot(left, right, ((0, 1), (0, 1)))


def gradients(parameters, x, draws):
    """Descent gradients by name, and the monitors; draws are (samples, batch, units) each."""
    depth, samples = len(draws), draws[0].shape[0]
    states, residuals = [x], {}
    log_q = log_p = 0.0
    for layer, draw in enumerate(draws):
        logits = states[-1] @ parameters[f"q{layer}.W"] + parameters[f"q{layer}.b"]
        state, row, residuals[f"q{layer}"] = _sample(logits, draw)
        states.append(state)
        log_q = log_q + row
    for layer in range(depth):
        logits = states[layer + 1] @ parameters[f"p{layer}.W"] + parameters[f"p{layer}.b"]
        row, residuals[f"p{layer}"] = _log_prob(states[layer], logits)
        log_p = log_p + row
    row, residuals[f"p{depth}"] = _log_prob(states[depth], parameters[f"p{depth}.b"])
    log_r = log_p + row - log_q
    half = jax.nn.logsumexp(log_r / 2, axis=0)
    weights = jnp.exp(log_r / 2 - half)
    found = {}
    for name, residual in residuals.items():
        layer = int(name[1:])
        scale = weights - 1.0 / samples if name[0] == "q" else weights
        scaled = residual * scale[..., None]
        if name == "q0":
            scaled = scaled.sum(0)
            found["q0.W"] = x.T @ scaled
            found["q0.b"] = scaled.sum(0)
            continue
        found[f"{name}.b"] = scaled.sum((0, 1))
        if layer < depth:
            found[f"{name}.W"] = _product(states[layer + (name[0] == "p")], scaled)
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
