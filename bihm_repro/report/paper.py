"""The numbers of the paper's tables and text that ours are compared with.

Tables are numbered in the order of the paper: 1 the UCI results, 2 the UCI layer sizes, 3 MNIST.
Likelihoods are negative log-likelihoods in nats as in its tables (lower is better), ``-2 log Z``
is printed there as a positive number, and an effective sample size is a percentage of K.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "MNIST",
    "MNIST_ESS",
    "MNIST_LAYERS",
    "MNIST_TEXT",
    "UCI",
    "UCI_BY_NAME",
    "UCI_QUOTED_MODELS",
    "UciSet",
]


@dataclass(frozen=True)
class UciSet:
    """One column of Table 1 with its row of Table 2.

    ``quoted`` maps the other models of Table 1 to their negative log-likelihood.
    """

    name: str
    title: str
    bihm_layers: tuple[int, ...]
    rws_layers: tuple[int, ...]
    nll_p: float
    nll_p_star: float
    minus_log_z2: float
    ess: float
    quoted: dict[str, float]


UCI_QUOTED_MODELS = ("NADE", "EoNADE", "DARN", "RWS - NADE", "RBM", "RWS - SBN")
"""The other models of Table 1: four autoregressive, then two that are not."""


# Name and title; layers of the BiHM and of RWS; -log p, -log p*, -2 log Z and the effective sample
# size of the BiHM; -log p of the quoted models.
_TABLES_1_AND_2 = """
adult        ADULT        100-70-50-25                 100-20-5    13.78   13.82  0.20  81.5   13.19  13.19  13.19  13.16  16.26  13.65
connect4     CONNECT4     300-110-50-20                150-50-10   12.43   12.31  0.27  89.1   11.99  12.58  11.91  11.68  22.66  12.68
dna          DNA          200-150-130-100-70-50-30-20-10  150-10   86.49   86.92  0.56  11.2   84.81  82.31  81.04  84.26  96.74  90.63
mushrooms    MUSHROOMS    150-100-90-60-40-20          150-50-10    9.40    9.40  0.09  92.5    9.81   9.68   9.55   9.71  15.15   9.90
nips         NIPS-0-12    200-100-50-25                150-50-10  272.66  272.71  1.97  16.8  273.08 272.38 274.68 271.11 277.37 272.54
ocr_letters  OCR-LETTERS  600-500-100-50-30-10         300-100-10  27.10   27.30  1.87  22.5   27.22  27.31  28.17  26.43  43.05  29.99
rcv1         RCV1         500-120-70-30                200-50-10   46.12   46.98  0.41  70.6   46.66  46.12  46.10  46.09  48.88  46.16
web          WEB          650-580-70-30-10             300-50-10   28.14   28.22  0.54  55.9   28.39  27.87  28.83  27.92  29.38  28.18
"""  # noqa: E501


def _uci(line: str) -> UciSet:
    name, title, bihm, rws, *numbers = line.split()
    ours, theirs = (tuple(map(int, sizes.split("-"))) for sizes in (bihm, rws))
    p, p_star, log_z2, ess, *others = map(float, numbers)
    quoted = dict(zip(UCI_QUOTED_MODELS, others))
    return UciSet(name, title, ours, theirs, p, p_star, log_z2, ess, quoted)


UCI = tuple(map(_uci, _TABLES_1_AND_2.strip().splitlines()))
"""The eight sets in the order of Table 1. All its effective sample sizes are within ±0.2%."""

UCI_BY_NAME = {entry.name: entry for entry in UCI}
"""The same by the data set's name in this package."""


@dataclass(frozen=True)
class MnistRow:
    """One row of Table 3: a bound (-log p at K = 1) and an estimate of the test -log p(x).

    ``method`` is our name of the model (see ``report.methods``), where this package has it.
    """

    model: str
    bound: float | None
    estimate: float | None
    method: str | None = None


MNIST = (
    MnistRow("NADE", None, 88.9, "NADE"),
    MnistRow("DARN (1 latent layer)", 88.3, 84.1, "DARN"),
    MnistRow("VAE", 96.2, 88.7, "VAE"),
    MnistRow("VAE + HMC (8 iterations)", 88.3, 85.5),
    MnistRow("IWAE (2 latent layers)", 96.1, 85.3, "IWAE"),
    MnistRow("NVIL (2 latent layers)", 99.6, None, "NVIL"),
    MnistRow("RWS (5 latent layers)", 96.3, 85.4, "RWS"),
    MnistRow("BiHM (12 latent layers)", 89.2, 84.3, "BiHM"),
)
"""Table 3, in its order."""

MNIST_TEXT = {
    "nll_p": 84.3,
    "nll_p_star": 84.6,
    "nll_p_resampled": 82.9,
    "vae_nll_p": 88.9,
    "vae_bound": 95.8,
}
"""Section 4: the best BiHM (±0.22 and ±0.23), the footnote on pixels that are resampled during
training, and the authors' own VAE (±0.28)."""

MNIST_LAYERS = {
    "BiHM": (300, 200, 100, 75, 50, 35, 30, 25, 20, 15, 10, 10),
    "RWS": (400, 300, 200, 100, 10),
    "VAE": (100,),
}
"""Latent layers of the MNIST models, from the data up; the VAE has two hidden layers of 500."""


@dataclass(frozen=True)
class EssRow:
    """An effective sample size on MNIST, in percent of K = 100,000, and its ±.

    q(h|x) is the proposal for the posterior of ``target``, ``p_star`` or ``p``.
    """

    method: str
    target: str
    value: float
    error: float


MNIST_ESS = (
    EssRow("BiHM", "p_star", 11.9, 1.1),
    EssRow("BiHM", "p", 1.2, 0.2),
    EssRow("RWS", "p", 0.10, 0.06),
    EssRow("VAE", "p", 0.07, 0.02),
)
"""Section 4.1, importance sampling efficiency, on the test set."""
