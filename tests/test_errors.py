"""Errors are one line of bounded length, whatever names and values are in them."""

from __future__ import annotations

import pickle

import pytest

from bihm_repro.errors import InputError, SetupError


@pytest.mark.parametrize("kind", [InputError, SetupError])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\x0b", "\x85", "\u2028"])
def test_a_message_is_one_line(kind, ending):
    error = kind(f"recipe.toml: a{ending}b: unknown setting")
    assert str(error) == "recipe.toml: a b: unknown setting"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("kind", [InputError, SetupError])
def test_a_long_message_keeps_its_beginning_and_its_end(kind):
    text = str(kind("the file: " + "x" * 5000 + "; the fix"))
    assert text.startswith("the file: x") and text.endswith("x; the fix")
    assert " ... " in text and len(text) == 2000
