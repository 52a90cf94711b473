"""Sampling from p*: the paper's Gibbs sampler ("Sampling and inpainting", section 3).

Given its neighbours, a latent layer is drawn by importance resampling: proposals from the mixture
½ p(h_l|h_{l+1}) + ½ q(h_l|h_{l-1}), resampled with the weights that the paper prints,

    sqrt(p(h_l|h_{l+1}) p(h_{l-1}|h_l) q(h_l|h_{l-1}) q(h_{l+1}|h_l)) / (p(h_l|h_{l+1}) + q(...)).

For x the paper names the proposals, p(x|h_1), and leaves the weights open. They follow from
q(x) = p*(x) = S(x)^2 / Z^2 with S(x) = sum_h sqrt(p(x, h) q(h|x)):

    p*(x|h_1) ~ sqrt(p(x|h_1) q(h_1|x)) S(x),   so the weight is sqrt(q(h_1|x) / p(x|h_1)) S(x).

Without S(x) the chain would settle at the marginal sqrt(p*(x)), normalised. S(x) is estimated as
the paper estimates p~*(x): the mean of sqrt(p(x, h') / q(h'|x)) over ``inner`` samples of q(h'|x).

Resampling among finitely many fresh proposals, the paper's procedure and the default here, only
approximates a conditional, the better the more proposals there are; in return the chain moves in
every step. With ``keep_current`` the current state is one more candidate, and the step leaves p*
invariant for any number of proposals; but a proposal then has to win against a state that has won
before, and on a trained model most steps stay where they are. For x invariance holds through a
second replica h' of the latent layers: sqrt(p(x, h) q(h|x)) sqrt(p(x, h') q(h'|x)) / Z^2 is a
distribution whose marginal over h' is p*(x, h), and the x step draws (x, h') together. Only the
replica's weight has to be remembered: ``Chain.log_replica``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.numerics import log_mean_exp
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.helmholtz import HelmholtzSampler

__all__ = ["Chain", "GibbsSettings", "gibbs_chain", "resample_towards_p_star", "start_chain"]


BLOCK = 2**23
"""Chains are worked on in blocks whose largest array has about this many elements."""


@dataclass(frozen=True)
class GibbsSettings:
    """How each conditional of p* is drawn."""

    proposals: int = 20
    """Fresh proposals for each layer and chain."""
    inner: int = 1
    """Samples of q(h|x) that estimate S(x) of each proposed x."""
    keep_current: bool = False
    """Whether the current state is a candidate too: p* is then invariant, but chains move less."""

    def __post_init__(self) -> None:
        for name in ("proposals", "inner"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: {getattr(self, name)}; expected 1 or more")


@dataclass(frozen=True)
class Chain:
    """The state of many chains.

    ``layers`` is [x, h_1, ..., h_L], each (chains, size); ``log_replica`` (chains,) is
    ½ (log p(x, h') - log q(h'|x)) of the replica h'.
    """

    layers: tuple[np.ndarray, ...]
    log_replica: np.ndarray

    @property
    def x(self) -> np.ndarray:
        """The data layer, shape (chains, data_dim)."""
        return self.layers[0]

    @property
    def h1(self) -> np.ndarray:
        """The first latent layer, shape (chains, size)."""
        return self.layers[1]


def start_chain(model: HelmholtzSampler, layers: list[np.ndarray], random: RandomStream) -> Chain:
    """Start chains at ``layers``, such as those of ``model.sample_p``; each (chains, size)."""
    replica = 0.5 * model.log_weights(layers[0], 1, random)[:, 0]
    return Chain(tuple(layers), replica)


def gibbs_chain(
    model: HelmholtzSampler,
    chain: Chain,
    steps: int,
    random: RandomStream,
    settings: GibbsSettings | None = None,
    known: np.ndarray | None = None,
) -> Iterator[Chain]:
    """Yield the state after each of ``steps`` steps; arguments as for :func:`gibbs_step`."""
    for _ in range(steps):
        chain = gibbs_step(model, chain, random, settings, known)
        yield chain


def gibbs_step(
    model: HelmholtzSampler,
    chain: Chain,
    random: RandomStream,
    settings: GibbsSettings | None = None,
    known: np.ndarray | None = None,
) -> Chain:
    """Update all odd layers, then all even layers, x last; return the new state.

    ``known``, bool of shape (data_dim,) or (chains, data_dim), marks the values of x that stay.
    """
    settings = settings or GibbsSettings()
    known = None if known is None else np.broadcast_to(known, chain.x.shape)
    block = max(1, BLOCK // ((settings.proposals + 1) * settings.inner * max(model.sizes)))
    parts = [
        _step(model, _part(chain, rows), random, settings, None if known is None else known[rows])
        for rows in (slice(i, i + block) for i in range(0, len(chain.x), block))
    ]
    layers = zip(*(part.layers for part in parts))
    replica = np.concatenate([part.log_replica for part in parts])
    return Chain(tuple(np.concatenate(layer) for layer in layers), replica)


def _part(chain: Chain, rows: slice) -> Chain:
    return Chain(tuple(layer[rows] for layer in chain.layers), chain.log_replica[rows])


def _step(
    model: HelmholtzSampler,
    chain: Chain,
    random: RandomStream,
    settings: GibbsSettings,
    known: np.ndarray | None,
) -> Chain:
    layers = list(chain.layers)
    for first in (1, 2):
        for level in range(first, model.depth + 1, 2):
            layers[level] = _draw_latent(model, layers, level, settings, random)
    layers[0], replica = _draw_x(model, layers, chain.log_replica, settings, random, known)
    return Chain(tuple(layers), replica)


def resample_towards_p_star(
    model: HelmholtzSampler, n: int, oversample: int, random: RandomStream, inner: int = 10
) -> list[np.ndarray]:
    """Draw ``n`` complete samples of p*, each chosen from ``oversample`` ancestral samples of p.

    The weights are p*(x, h) / p(x, h) up to a constant, sqrt(q(h|x) / p(x, h)) S(x), with S(x)
    estimated from ``inner`` samples. Exact as ``oversample`` grows. Layers of shape (n, size).
    """
    if n < 1 or oversample < 1 or inner < 1:
        raise InputError(f"n {n}, oversample {oversample}, inner {inner}; expected 1 or more")
    block = max(1, BLOCK // (oversample * inner * max(model.sizes)))
    counts = [min(block, n - first) for first in range(0, n, block)]
    parts = [_resampled(model, count, oversample, random, inner) for count in counts]
    return [np.concatenate(layer) for layer in zip(*parts)]


def _resampled(
    model: HelmholtzSampler, n: int, oversample: int, random: RandomStream, inner: int
) -> list[np.ndarray]:
    layers = model.sample_p(n * oversample, random)
    log_weights = 0.5 * (model.log_q(layers) - model.log_joint(layers))
    log_weights += log_mean_exp(0.5 * model.log_weights(layers[0], inner, random))
    chosen = _choose(log_weights.reshape(n, oversample), random)
    rows = np.arange(n) * oversample + chosen
    return [layer[rows] for layer in layers]


def _draw_latent(
    model: HelmholtzSampler,
    layers: list[np.ndarray],
    level: int,
    settings: GibbsSettings,
    random: RandomStream,
) -> np.ndarray:
    """Draw h_level from p*(h_level | its neighbours); returns (chains, size)."""
    lower, current = layers[level - 1], layers[level]
    upper = layers[level + 1] if level < model.depth else None
    down, up = model.p_given(level, upper), model.q_given(level, lower)
    shape = (len(current), settings.proposals)
    from_p = random.uniform((*shape, 1)) < 0.5
    # A prior has no rows of its own: its samples need the complete shape.
    from_above = down.sample(random, shape if upper is None else shape[1:])
    proposals = np.where(from_p, from_above, up.sample(random, shape[1:]))
    candidates = _candidates(proposals, current, settings)
    log_p, log_q = down.log_prob(candidates), up.log_prob(candidates)
    rest = model.p_given(level - 1, candidates).log_prob(lower[:, None])
    if upper is not None:
        rest = rest + model.q_given(level + 1, candidates).log_prob(upper[:, None])
    log_weights = 0.5 * (log_p + log_q + rest) - np.logaddexp(log_p, log_q)
    return candidates[np.arange(len(current)), _choose(log_weights, random)]


def _draw_x(
    model: HelmholtzSampler,
    layers: list[np.ndarray],
    log_replica: np.ndarray,
    settings: GibbsSettings,
    random: RandomStream,
    known: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw x from p*(x|h_1), and the replica with it; returns (chains, data_dim), (chains,)."""
    current, h1 = layers[0], layers[1]
    rows = np.arange(len(current))
    down = model.p_given(0, h1)
    unknown = None if known is None else ~known[:, None]
    proposals = down.sample(random, (settings.proposals,), unknown, current[:, None])
    candidates = _candidates(proposals, current, settings)
    up = model.q_given(1, candidates)
    replicas = 0.5 * model.log_weights(candidates, settings.inner, random, first=up)
    if settings.keep_current:
        replicas[:, 0, 0] = log_replica
    log_weights = 0.5 * (up.log_prob(h1[:, None]) + down.log_prob(candidates))
    log_weights -= down.log_prob(candidates, unknown)
    chosen = _choose(log_weights + log_mean_exp(replicas), random)
    of_chosen = replicas[rows, chosen]
    return candidates[rows, chosen], of_chosen[rows, _choose(of_chosen, random)]


def _candidates(proposals: np.ndarray, current: np.ndarray, settings: GibbsSettings) -> np.ndarray:
    if not settings.keep_current:
        return proposals
    return np.concatenate([current[:, None], proposals], axis=1)


def _choose(log_weights: np.ndarray, random: RandomStream) -> np.ndarray:
    """Draw a column of each row of ``log_weights`` (rows, columns) in proportion to exp."""
    top = log_weights.max(axis=1, keepdims=True)
    cumulated = np.exp(log_weights - top, dtype=np.float64).cumsum(axis=1)
    threshold = random.uniform((len(cumulated), 1)) * cumulated[:, -1:]
    return (cumulated <= threshold).sum(axis=1)
