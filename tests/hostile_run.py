"""A small model for damaged and hostile files, and what a message must be."""

from __future__ import annotations

import numpy as np

from bihm_repro.recipes.recipe import Recipe

RECIPE = Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}})
MODEL = {"p0.W": np.ones((2, 3), np.float32), "p0.b": np.zeros(3, np.float32)}


def one_line(error):
    text = str(error.value)
    assert "\n" not in text and len(text) < 600, text
    return text
