"""Algorithm 1 written by hand in PyTorch: closed-form residuals, no autograd, in-place Adam.

q(h1|x) is computed once per x, nothing is clipped. States are (samples * batch, units) with the
batch running fastest, so that what an x shares is broadcast along the leading axis.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.nn.functional import softplus

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

__all__ = ["TorchPeer", "gradients"]


def _row(values, logits):
    """Row log-probability of binary values, both (rows, units)."""
    return torch.linalg.vecdot(values, logits) - softplus(logits).sum(-1)


def _layer(parameters, name, values):
    return torch.addmm(parameters[f"{name}.b"], values, parameters[f"{name}.W"])


def _infer(parameters, x, draws):
    """Layers (rows, units) with x first, log q (rows,), residuals, and q(h1|x)'s means."""
    samples, batch, _ = draws[0].shape
    logits = _layer(parameters, "q0", x)
    means = torch.sigmoid(logits)
    first = torch.lt(draws[0], means).to(torch.float32)
    log_q = torch.einsum("knu,nu->kn", first, logits) - softplus(logits).sum(-1)
    log_q = log_q.reshape(-1)
    states, residuals = [x, first.view(samples * batch, -1)], {}
    for layer in range(1, len(draws)):
        logits = _layer(parameters, f"q{layer}", states[-1])
        residual = torch.sigmoid(logits)
        states.append(torch.lt(draws[layer].view_as(residual), residual).to(torch.float32))
        log_q += _row(states[-1], logits)
        residuals[f"q{layer}"] = residual.sub_(states[-1])
    return states, log_q, residuals, means


def _score(parameters, states, shape):
    """log p(x, h) (rows,) and residuals by name; `shape` is (samples, batch)."""
    depth = len(states) - 1
    prior = parameters[f"p{depth}.b"]
    log_p = states[depth] @ prior - softplus(prior).sum()
    residuals = {f"p{depth}": torch.sigmoid(prior) - states[depth]}
    for layer in range(1, depth):
        logits = _layer(parameters, f"p{layer}", states[layer + 1])
        log_p += _row(states[layer], logits)
        residuals[f"p{layer}"] = torch.sigmoid_(logits).sub_(states[layer])
    logits = _layer(parameters, "p0", states[1])
    shaped = logits.view(*shape, -1)
    log_p += (torch.einsum("knd,nd->kn", shaped, states[0]) - softplus(shaped).sum(-1)).reshape(-1)
    torch.sigmoid_(shaped).sub_(states[0])
    residuals["p0"] = logits
    return log_p, residuals


def _weighted(source, residual, weight):
    """Gradients of weights and bias; the narrower factor takes the row weights."""
    bias = torch.mv(residual.t(), weight)
    if source.shape[1] < residual.shape[1]:
        return torch.mul(source, weight[:, None]).t() @ residual, bias
    return source.t() @ residual.mul_(weight[:, None]), bias


def gradients(parameters, x, draws):
    """Descent gradients by name, and the monitors; draws are (samples, batch, units) each."""
    depth, (samples, batch, _) = len(draws), draws[0].shape
    states, log_q, residuals, means = _infer(parameters, x, draws)
    log_p, of_p = _score(parameters, states, (samples, batch))
    log_r = (log_p - log_q).view(samples, batch)
    half = torch.logsumexp(log_r / 2, 0)
    weights = torch.exp(log_r / 2 - half)
    centred = weights - 1.0 / samples

    first = states[1].view(samples, batch, -1)
    summed = means * centred.sum(0)[:, None] - torch.einsum("kn,knu->nu", centred, first)
    found = {"q0.W": x.t() @ summed, "q0.b": summed.sum(0)}
    found[f"p{depth}.b"] = torch.mv(of_p.pop(f"p{depth}").t(), weights.view(-1))
    for name, residual in {**residuals, **of_p}.items():
        source = states[int(name[1:]) + (name[0] == "p")]
        weight = (centred if name[0] == "q" else weights).view(-1)
        found[f"{name}.W"], found[f"{name}.b"] = _weighted(source, residual, weight)
    monitors = {
        "log_p": (torch.logsumexp(log_r, 0) - np.log(samples)).sum(),
        "log_p_tilde_star": 2 * (half - np.log(samples)).sum(),
    }
    return found, monitors


class _Adam:
    """Adam with L1 on the weights, in place, over all parameters at once."""

    def __init__(self, parameters: dict):
        self.names = list(parameters)
        self.values = [parameters[name] for name in self.names]
        self.first = [torch.zeros_like(value) for value in self.values]
        self.second = [torch.zeros_like(value) for value in self.values]
        self.weights = [value for name, value in parameters.items() if name.endswith(".W")]
        self.step = 0

    def update(self, found: dict) -> None:
        """One step along the gradients `found`, which are overwritten."""
        self.step += 1
        slopes = [found[name] for name in self.names]
        regular = [found[name] for name in self.names if name.endswith(".W")]
        torch._foreach_add_(regular, torch._foreach_sign(self.weights), alpha=L1)
        torch._foreach_lerp_(self.first, slopes, 1 - ADAM["beta1"])
        torch._foreach_mul_(self.second, ADAM["beta2"])
        torch._foreach_addcmul_(self.second, slopes, slopes, 1 - ADAM["beta2"])
        scale = torch._foreach_sqrt(self.second)
        torch._foreach_add_(scale, ADAM["epsilon"])
        bias = np.sqrt(1 - ADAM["beta2"] ** self.step) / (1 - ADAM["beta1"] ** self.step)
        torch._foreach_addcdiv_(self.values, self.first, scale, -ADAM["rate"] * bias)


class TorchPeer:
    """The PyTorch contender; it knows the task `update` only."""

    @torch.no_grad()
    def check(self) -> float:
        """Largest relative error of the gradients against numpy, on the tiny case."""
        parameters, x = initial_parameters(TINY), batches(TINY, 1)[0]
        draws = uniforms(TINY)
        expected, _ = gradient_reference(parameters, x, draws)
        tensors = {name: torch.from_numpy(value) for name, value in parameters.items()}
        shaped = [torch.from_numpy(draw).swapaxes(0, 1).contiguous() for draw in draws]
        found, _ = gradients(tensors, torch.from_numpy(x), shaped)
        return relative_error({n: v.numpy() for n, v in found.items()}, expected)

    def prepare(self, task: str, case: Case):
        """A function that runs `count` updates."""
        if task != "update":
            raise ValueError(f"the PyTorch peer has no task {task!r}")
        data = [torch.from_numpy(x) for x in batches(case, 8)]
        parameters = {n: torch.from_numpy(v) for n, v in initial_parameters(case).items()}
        draws = [torch.empty(case.samples, case.batch, units) for units in case.layers]
        adam = _Adam(parameters)

        @torch.no_grad()
        def run(count: int) -> None:
            for number in range(count):
                for draw in draws:
                    draw.uniform_()
                found, _ = gradients(parameters, data[number % len(data)], draws)
                adam.update(found)

        return run


if __name__ == "__main__":
    sys.exit(main(TorchPeer))
