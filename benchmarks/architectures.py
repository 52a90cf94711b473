"""What is measured: the layer sizes of four recipes (the paper's table of BiHM architectures).

A `Case` is one model at one mini-batch size and one number of samples K (Algorithm 1).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

__all__ = ["BATCH", "LAYERS", "SAMPLES", "TINY", "Case", "cases", "find_case"]

BATCH = 100
START, TRAINED = -1.0, -1.8
"""Biases: the paper's first ones, by which 27% of the units are on, and ones for 14%, as many as in
the lower layers of a trained MNIST model."""
SAMPLES = (10, 100)

LAYERS = {
    "mnist": (784, (300, 200, 100, 75, 50, 35, 30, 25, 20, 15, 10, 10)),
    "adult": (123, (100, 70, 50, 25)),
    "ocr_letters": (128, (600, 500, 100, 50, 30, 10)),
    "web": (300, (650, 580, 70, 30, 10)),
}
"""Name of the recipe -> (size of the data, sizes of the latent layers from the data up)."""


@dataclass(frozen=True)
class Case:
    """One model, mini-batch size and number of samples K."""

    model: str
    data_dim: int
    layers: tuple
    samples: int
    batch: int = BATCH
    bias: float = START

    @property
    def active(self) -> float:
        """The share of the data, and about that of the units, that is on."""
        return 1 / (1 + math.exp(-self.bias))

    @property
    def name(self) -> str:
        """The key of this case in `results/bench.json`: `mnist-K10`, `mnist-K10-14%`."""
        share = "" if self.bias == START else f"-{self.active:.0%}"
        return f"{self.model}-K{self.samples}{share}"

    @property
    def sizes(self) -> tuple:
        """Sizes of all layers, the data first."""
        return (self.data_dim, *self.layers)

    @property
    def depth(self) -> int:
        """Number of latent layers, L."""
        return len(self.layers)

    def to_dict(self) -> dict:
        """A JSON form that `from_dict` reads."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Case:
        """The case that `to_dict` wrote."""
        return cls(**{**values, "layers": tuple(values["layers"])})


TINY = Case("tiny", data_dim=7, layers=(6, 5, 3), samples=4, batch=3)
"""Small enough to compare every contender with the numpy reference."""


def cases() -> list:
    """All update cases: four recipes at K=10 and K=100, and MNIST as it is when it is trained."""
    start = [
        Case(model, data_dim, layers, samples)
        for model, (data_dim, layers) in LAYERS.items()
        for samples in SAMPLES
    ]
    return start + [Case("mnist", *LAYERS["mnist"], samples, bias=TRAINED) for samples in SAMPLES]


def find_case(name: str) -> Case:
    """The case called `name`; a ValueError lists the names where there is none."""
    known = {case.name: case for case in cases()}
    if name not in known:
        raise ValueError(f"no benchmark case is called {name!r}; there are {', '.join(known)}")
    return known[name]
