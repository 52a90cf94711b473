"""Fixtures of the tests of run folders."""

import pytest
from hostile_run import RECIPE

from bihm_repro.runs.layout import RunDirectory


@pytest.fixture
def run(tmp_path):
    folder = RunDirectory(tmp_path / "run")
    folder.claim(RECIPE)
    return folder
