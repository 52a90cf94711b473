"""Every number of the paper's tables and text, each with the place where it stands.

Tables are numbered in the order of the paper: 1 the UCI results, 2 the UCI layer sizes, 3 MNIST.
Likelihoods are negative log-likelihoods in nats as in its tables (lower is better), ``-2 log Z``
is printed there as a positive number, and an effective sample size is a percentage of K.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BIHM_MNIST_LAYERS", "BINARIZATION_RESAMPLED", "ESS", "Fact", "K_SENSITIVITY",
    "LEARNING_CURVES", "MNIST", "MNIST_BY_NAME", "MNIST_TEXT", "MnistRow", "PARAMETERS",
    "PARTITION_FUNCTION", "Quoted", "RWS_MNIST_LAYERS", "SAMPLING", "TFD", "TRAINING", "UCI",
    "UCI_BY_NAME", "UCI_QUOTED_MODELS", "VAE_ARCHITECTURE", "EssRow", "UciSet",
]

TABLE_UCI = "Table 1"
TABLE_LAYERS = "Table 2"
TABLE_MNIST = "Table 3"
SECTION_SETUP = "Section 4"
SECTION_UCI = "Section 4, UCI binary datasets"
SECTION_MNIST = "Section 4, Binarized MNIST"
SECTION_TFD = "Section 4, Toronto Face Database"
SECTION_Z = "Section 4.1, Estimating the partition function"
SECTION_ESS = "Section 4.1, Importance sampling efficiency"
SECTION_COST = "Section 4.1, Computational cost"


@dataclass(frozen=True)
class Quoted:
    """A number as printed, its ± where the paper gives one, and where it stands."""

    value: float
    where: str
    error: float | None = None


@dataclass(frozen=True)
class Fact:
    """A plain setting or count of the text: its name, value and place."""

    name: str
    value: object
    where: str


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
    where: str = TABLE_UCI


UCI_QUOTED_MODELS = ("NADE", "EoNADE", "DARN", "RWS - NADE", "RBM", "RWS - SBN")
"""The other models of Table 1: four autoregressive, then two that are not."""


def _uci(name: str, title: str, bihm_layers: tuple[int, ...], rws_layers: tuple[int, ...],
         bihm: tuple[float, float, float, float], others: tuple[float, ...]) -> UciSet:
    return UciSet(name, title, bihm_layers, rws_layers, *bihm,
                  quoted=dict(zip(UCI_QUOTED_MODELS, others)))


UCI = (
    _uci("adult", "ADULT", (100, 70, 50, 25), (100, 20, 5),
         (13.78, 13.82, 0.20, 81.5), (13.19, 13.19, 13.19, 13.16, 16.26, 13.65)),
    _uci("connect4", "CONNECT4", (300, 110, 50, 20), (150, 50, 10),
         (12.43, 12.31, 0.27, 89.1), (11.99, 12.58, 11.91, 11.68, 22.66, 12.68)),
    _uci("dna", "DNA", (200, 150, 130, 100, 70, 50, 30, 20, 10), (150, 10),
         (86.49, 86.92, 0.56, 11.2), (84.81, 82.31, 81.04, 84.26, 96.74, 90.63)),
    _uci("mushrooms", "MUSHROOMS", (150, 100, 90, 60, 40, 20), (150, 50, 10),
         (9.40, 9.40, 0.09, 92.5), (9.81, 9.68, 9.55, 9.71, 15.15, 9.90)),
    _uci("nips", "NIPS-0-12", (200, 100, 50, 25), (150, 50, 10),
         (272.66, 272.71, 1.97, 16.8), (273.08, 272.38, 274.68, 271.11, 277.37, 272.54)),
    _uci("ocr_letters", "OCR-LETTERS", (600, 500, 100, 50, 30, 10), (300, 100, 10),
         (27.10, 27.30, 1.87, 22.5), (27.22, 27.31, 28.17, 26.43, 43.05, 29.99)),
    _uci("rcv1", "RCV1", (500, 120, 70, 30), (200, 50, 10),
         (46.12, 46.98, 0.41, 70.6), (46.66, 46.12, 46.10, 46.09, 48.88, 46.16)),
    _uci("web", "WEB", (650, 580, 70, 30, 10), (300, 50, 10),
         (28.14, 28.22, 0.54, 55.9), (28.39, 27.87, 28.83, 27.92, 29.38, 28.18)),
)
"""The eight sets in the order of Table 1. All its effective sample sizes are within ±0.2%."""

UCI_BY_NAME = {entry.name: entry for entry in UCI}
"""The same by the data set's name in this package."""


@dataclass(frozen=True)
class MnistRow:
    """One row of Table 3: a bound (-log p at K=1) and an estimate of the test -log p(x)."""

    model: str
    block: str
    bound: float | None
    estimate: float | None
    kind: str | None = None
    where: str = TABLE_MNIST


MNIST = (
    MnistRow("NADE", "autoregressive models", None, 88.9),
    MnistRow("DARN (1 latent layer)", "autoregressive models", 88.3, 84.1),
    MnistRow("VAE", "continuous latent variables", 96.2, 88.7, "vae"),
    MnistRow("VAE + HMC (8 iterations)", "continuous latent variables", 88.3, 85.5),
    MnistRow("IWAE (2 latent layers)", "continuous latent variables", 96.1, 85.3, "iwae"),
    MnistRow("NVIL (2 latent layers)", "binary latent variables", 99.6, None),
    MnistRow("RWS (5 latent layers)", "binary latent variables", 96.3, 85.4, "rws"),
    MnistRow("BiHM (12 latent layers)", "binary latent variables", 89.2, 84.3, "bihm"),
)
"""Table 3, in its order; ``kind`` names the model of this package that is its counterpart."""

MNIST_BY_NAME = {row.model.split(" (")[0]: row for row in MNIST}

MNIST_TEXT = {
    "log_p": Quoted(-84.3, SECTION_MNIST, 0.22),
    "log_p_star": Quoted(-84.6, SECTION_MNIST, 0.23),
    "vae_log_p": Quoted(-88.9, SECTION_ESS, 0.28),
    "vae_bound": Quoted(-95.8, SECTION_ESS),
}
"""Test log-likelihoods of the text: the best BiHM, and the authors' own VAE."""

BINARIZATION_RESAMPLED = Quoted(-82.9, SECTION_MNIST + ", footnote")
"""log p(x) on MNIST whose pixels are drawn anew during training."""

BIHM_MNIST_LAYERS = (300, 200, 100, 75, 50, 35, 30, 25, 20, 15, 10, 10)
"""Section 4, Binarized MNIST: 12 latent layers, from the data up."""

RWS_MNIST_LAYERS = (400, 300, 200, 100, 10)
"""Section 4.1, Importance sampling efficiency: the best RWS model."""

VAE_ARCHITECTURE = {"hidden": (500, 500), "layers": (100,), "activation": "relu",
                    "where": SECTION_ESS}
"""Two deterministic layers each side of 100 continuous variables."""

PARAMETERS = (
    Fact("BiHM, 12 layers", 700_000, SECTION_MNIST),
    Fact("DBM, smaller", 900_000, SECTION_MNIST),
    Fact("DBM, larger", 1_100_000, SECTION_MNIST),
    Fact("VAE, 2x500 and 100 (at least)", 1_400_000, SECTION_MNIST),
)
"""Parameter counts, as rounded in the text."""


@dataclass(frozen=True)
class EssRow:
    """An effective sample size on MNIST, in percent of K = 100,000, and its ±.

    ``target`` is the distribution whose posterior q(h|x) proposes for: ``p_star`` or ``p``.
    """

    kind: str
    target: str
    value: float
    error: float
    samples: int = 100_000
    where: str = SECTION_ESS


ESS = (
    EssRow("bihm", "p_star", 11.9, 1.1),
    EssRow("bihm", "p", 1.2, 0.2),
    EssRow("rws", "p", 0.10, 0.06),
    EssRow("vae", "p", 0.07, 0.02),
)
"""The four effective sample sizes of the text, MNIST test set."""

TRAINING = (
    Fact("step rule", "adam", SECTION_SETUP),
    Fact("batch size", 100, SECTION_SETUP),
    Fact("initial biases", -1.0, SECTION_SETUP),
    Fact("L1 on all weights", 1e-3, SECTION_SETUP),
    Fact("UCI learning rates", (1e-2, 1e-3), SECTION_UCI),
    Fact("MNIST first phase: K", 10, SECTION_MNIST),
    Fact("MNIST first phase: learning rate", 1e-3, SECTION_MNIST),
    Fact("MNIST second phase: K", 100, SECTION_MNIST),
    Fact("MNIST second phase: learning rate", 3e-4, SECTION_MNIST),
)
"""How the paper trained."""

TFD = (
    Fact("examples", 98_058, SECTION_TFD),
    Fact("image shape", (48, 48), SECTION_TFD),
    Fact("layers", (1000, 700, 700, 300), SECTION_TFD),
    Fact("learning rate", 3e-5, SECTION_TFD),
    Fact("samples shown", 12, "Figure 5 A"),
    Fact("Gibbs iterations", 10, "Figure 5 A"),
)
"""The Toronto face experiment."""

SAMPLING = (
    Fact("Gibbs iterations, samples from p*", 10, "Figure 1 B"),
    Fact("Gibbs iterations, inpainting", 100, "Figure 2"),
    Fact("reconstructions of each digit", 3, "Figure 2"),
)
"""What the figures of samples show."""

PARTITION_FUNCTION = (
    Fact("K_inner", (1, 10, 100), SECTION_Z),
    Fact("samples for a good estimate", 10_000_000, SECTION_Z),
    Fact("standard error then, at most", 0.1, SECTION_Z),
    Fact("minutes on a GTX980, at most", 2, SECTION_Z),
    Fact("runs behind the grey region", 10, "Figure 3 B"),
)
"""The estimator of 2 log Z on the best MNIST model."""

K_SENSITIVITY = (
    Fact("BiHM at this K is above RWS at K=10,000", 10, SECTION_ESS),
    Fact("K that VAE, RWS and IWAE need", 10_000, SECTION_COST),
)
"""What the text says of Figure 1 C."""

LEARNING_CURVES = (
    Fact("updates", 1_000_000, SECTION_COST),
    Fact("learning rate, BiHM and RWS", 5e-4, SECTION_COST),
    Fact("learning rate, VAE", 3e-3, SECTION_COST),
    Fact("K, BiHM and RWS", 10, SECTION_COST),
    Fact("IWAE: batch size", 20, SECTION_COST),
    Fact("IWAE: K", 5, SECTION_COST),
    Fact("IWAE: number of learning rates", 8, SECTION_COST),
    Fact("IWAE: epochs, about", 3300, SECTION_COST),
    Fact("K of the test figures", 1000, SECTION_COST),
)
"""The settings behind Figure 4."""
