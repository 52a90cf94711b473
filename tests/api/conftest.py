"""A tiny model, trained once for all tests of the Python classes."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro import BiHM
from bihm_repro.recipes.recipe import Phase

PHASES = (Phase(samples=5, learning_rate=0.05, patience=10, max_epochs=60),)
SMALL = {"layers": (4, 2), "l1": 0.0, "batch_size": 20, "verbose": 0}


@pytest.fixture(scope="session")
def xor():
    """Three-bit rows whose last bit is the exclusive or of the others."""
    rng = np.random.default_rng(0)
    bits = (rng.random((600, 2)) < 0.5).astype(np.float32)
    return np.column_stack([bits, bits[:, 0] != bits[:, 1]]).astype(np.float32)


@pytest.fixture(scope="session")
def trained(xor, tmp_path_factory):
    """A model trained on those rows, its run folder, and the rows."""
    folder = tmp_path_factory.mktemp("runs") / "xor"
    model = BiHM(**SMALL, phases=PHASES, weights="glorot-over-fan-in", centred=False)
    return model.fit(xor[:500], xor[500:], out=folder), folder, xor
