"""Run folders with known numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.runs.reader import read_runs

ADULT = (100, 70, 50, 25)


ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path):
    """Two finished sets, a surrogate split, a surrogate set, a paused run, seeds, RWS, MNIST."""
    folder = tmp_path / "results"
    write_run(folder, "adult", "adult", layers=ADULT, evaluated=evaluation(-13.56))
    write_run(folder, "adult-seed1", "adult", layers=ADULT, seed=1, evaluated=evaluation(-13.60))
    write_run(folder, "adult-seed2", "adult", layers=ADULT, seed=2, evaluated=evaluation(-13.70))
    write_run(folder, "dna", "dna", evaluated=evaluation(-90.0, ess=12.0), finished=False)
    write_run(folder, "web", "web", evaluated=evaluation(-28.0))
    write_run(folder, "rcv1_surrogate", "rcv1_surrogate", evaluated=evaluation(-50.0))
    write_run(folder, "nips", "nips", finished=False)
    write_run(
        folder,
        "adult-rws",
        "adult",
        kind="rws",
        layers=(100, 20, 5),
        evaluated=evaluation(-13.9, star=False, ess=1.0),
    )
    write_run(
        folder,
        "mnist",
        "binarized_mnist",
        layers=(300, 10),
        finished=False,
        updates=75000,
        evaluated=evaluation(-86.5, ess=7.0),
    )
    write_run(
        folder,
        "mnist-vae",
        "binarized_mnist",
        kind="vae",
        layers=(100,),
        evaluated=evaluation(-88.7, star=False),
    )
    return folder


@pytest.fixture
def runs(results):
    """The same, read."""
    found, complaints = read_runs(results)
    assert complaints == []
    return found
