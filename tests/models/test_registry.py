"""What is registered of the kinds of models: users' recipes, classes and results depend on it."""

from __future__ import annotations

import pytest

from bihm_repro.models.registry import Capability, kind

LAYERS = {"p_layer", "q_layer", "prior", "nade_hidden"}
GAUSSIAN = {"hidden": (500, 500), "weights": "gaussian", "bias": 0.0}
GLOROT = {"weights": "glorot", "bias": 0.0}
BINARY = {Capability.SAMPLES, Capability.ACTIVE_UNITS}


@pytest.mark.parametrize(
    ("name", "title", "capabilities", "settings", "defaults"),
    [
        (
            "bihm",
            "BiHM",
            BINARY
            | {Capability.P_STAR, Capability.LOG_Z2, Capability.GIBBS, Capability.INPAINTING}
            | {Capability.UPPER_LAYERS},
            LAYERS,
            {},
        ),
        ("rws", "RWS", BINARY, LAYERS, {}),
        ("vae", "VAE", {Capability.SAMPLES}, {"hidden"}, GAUSSIAN),
        ("iwae", "IWAE", {Capability.SAMPLES}, {"hidden"}, GAUSSIAN),
        ("nvil", "NVIL", BINARY, LAYERS, {}),
        ("vimco", "VIMCO", BINARY, LAYERS, {}),
        ("nade", "NADE", {Capability.EXACT_LOG_P, Capability.SAMPLES}, set(), GLOROT),
        ("rbm", "RBM", {Capability.LOG_Z, Capability.SAMPLES}, set(), GLOROT),
    ],
)
def test_each_kind_is_registered_with_what_it_can_do(name, title, capabilities, settings, defaults):
    found = kind(name)
    assert (found.name, found.title) == (name, title)
    assert found.capabilities == capabilities and found.settings == settings
    assert found.defaults == defaults
    assert (found.sampler is not None) == (Capability.SAMPLES in capabilities)
