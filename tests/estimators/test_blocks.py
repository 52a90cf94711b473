"""Blocks of estimates: computed in any order, interrupted anywhere, they give the same bits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from exact import random_parameters, states
from scipy.special import logsumexp

from bihm_repro.estimators.blocks import Estimator, ProgressFiles, run_estimator
from bihm_repro.estimators.effective_sample_size import EffectiveSampleSizeEstimator
from bihm_repro.estimators.log_likelihood import LogLikelihoodEstimator
from bihm_repro.estimators.partition_function import LogZ2Estimator
from bihm_repro.estimators.streaming import LogWeights, block_shape
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine


@pytest.fixture(scope="module")
def model():
    model = BidirectionalHelmholtzMachine(5, [4]).allocate()
    model.set_values(random_parameters((5, 4), 1, 0.5))
    return model


@pytest.fixture(scope="module")
def log_weights(model):
    return LogWeights(model, 3)


class Sums(Estimator):
    """Sums of numbers that do not add up exactly in another order."""

    title, key, total, count = "some sums", "5 blocks", 50, 5

    def __init__(self):
        self.arrays = {"sum": np.zeros(3)}

    def size(self, number):
        return 10

    def sums(self, number):
        return np.random.default_rng(number).normal(size=3) * 10.0 ** np.arange(0, 9, 3)

    def add(self, number, sums):
        self.arrays["sum"] += sums

    def result(self):
        return self.arrays["sum"].tolist()


def until(stop):
    def compute(estimator, numbers):
        for number in numbers:
            if number == stop:
                raise KeyboardInterrupt
            yield estimator.sums(number)

    return compute


def test_an_interrupted_estimate_goes_on_from_the_blocks_that_are_done(tmp_path):
    whole = run_estimator(Sums(), quiet=True)
    assert whole != run_estimator(Sums(), lambda e, n: map(e.sums, reversed(n)), quiet=True)
    for stop in range(Sums.count):
        files = ProgressFiles(tmp_path / str(stop), "model and data")
        with pytest.raises(KeyboardInterrupt):
            run_estimator(Sums(), until(stop), files=files, quiet=True)
        computed = []

        def compute(estimator, numbers, computed=computed):
            computed += numbers
            return map(estimator.sums, numbers)

        assert run_estimator(Sums(), compute, files=files, quiet=True) == whole
        assert computed == list(range(stop, Sums.count))
        assert run_estimator(Sums(), until(0), files=files, quiet=True) == whole
        files.remove()
        assert not files.folder.exists()


def test_sums_of_a_block_that_was_not_added_to_its_end_are_not_kept(tmp_path):
    class Torn(Sums):
        def add(self, number, sums):
            super().add(number, sums)
            if number == 2:
                raise KeyboardInterrupt

    files = ProgressFiles(tmp_path, "key")
    with pytest.raises(KeyboardInterrupt):
        run_estimator(Torn(), files=files, quiet=True)
    assert files.restore(Sums()) == 0


def test_progress_of_something_else_and_damaged_files_are_not_used(tmp_path):
    files = ProgressFiles(tmp_path, "key")
    with pytest.raises(KeyboardInterrupt):
        run_estimator(Sums(), until(3), files=files, quiet=True)
    path = tmp_path / "some-sums.npz"
    assert files.restore(Sums()) == 3
    assert ProgressFiles(tmp_path, "other").restore(Sums()) == 0
    other = Sums()
    other.key = "6 blocks"
    assert files.restore(other) == 0
    other = Sums()
    other.arrays = {"sum": np.zeros(4)}
    assert files.restore(other) == 0
    path.write_bytes(path.read_bytes()[:100])
    assert files.restore(Sums()) == 0


@pytest.mark.parametrize(
    ("change", "following"),
    [
        ({}, 3),
        ({"sum": np.array([1.0, np.nan, 2.0])}, 0),
        ({"sum": np.array([1.0, -np.inf, 2.0])}, 3),
        ({"next": np.array(-1)}, 0),
        ({"next": np.array(0)}, 0),
        ({"next": np.array(5)}, 5),
        ({"next": np.array(6)}, 0),
        ({"next": np.array(3.0)}, 0),
    ],
)
def test_sums_that_no_estimate_has_are_not_used(tmp_path, change, following):
    files, path = ProgressFiles(tmp_path, "key"), tmp_path / "some-sums.npz"
    with pytest.raises(KeyboardInterrupt):
        run_estimator(Sums(), until(3), files=files, quiet=True)
    with np.load(path) as stored:
        np.savez(path, **{**stored, **change})
    estimator = Sums()
    assert files.restore(estimator) == following
    assert estimator.arrays["sum"].any() == bool(following)


def test_progress_is_written_every_half_minute(tmp_path):
    now = [0.0]
    files = ProgressFiles(tmp_path, "key", clock=lambda: now[0])
    for now[0], written in ((29.0, False), (30.0, True)):
        files.save(Sums(), 1)
        assert (tmp_path / "some-sums.npz").exists() == written


@pytest.mark.parametrize(
    ("layers", "samples", "shape"),
    [
        ([300, 200], 1000, (34, 100)),
        ([300, 200], 1001, (3, 1001)),
        ([300, 200], 10**6, (1, 3495)),
        ([10], 50, (163, 50)),
        ([10], 10**6, (1, 8192)),
        ([10**6], 10, (6, 10)),
        ([10**6], 1000, (1, 100)),
        ([], 1, (8192, 1)),
    ],
)
def test_the_sizes_of_blocks_stay_as_they_are(layers, samples, shape):
    """Estimates are made of the random numbers of blocks: other sizes give other ones."""
    assert block_shape(SimpleNamespace(layers=layers), samples) == shape


def estimators(model, log_weights):
    x = np.repeat(states(5), 2, axis=0)
    return [
        LogLikelihoodEstimator(model, x, (1, 7, 25), 3, log_weights, block=(30, 10)),
        EffectiveSampleSizeEstimator(model, x, 9000, 3, log_weights),
        LogZ2Estimator(model, 10_000, 1, 3, trace=4),
    ]


def test_blocks_computed_in_any_order_give_the_same_bits(model, log_weights):
    together = [run_estimator(e, quiet=True) for e in estimators(model, log_weights)]
    for estimator, whole in zip(estimators(model, log_weights), together):
        assert estimator.count > 2
        assert sum(map(estimator.size, range(estimator.count))) == estimator.total
        sums = {number: estimator.sums(number) for number in reversed(range(estimator.count))}
        again = run_estimator(estimator, lambda e, n, s=sums: (s[i] for i in n), quiet=True)
        assert repr(again) == repr(whole)
        for values in (again, whole):
            assert np.isfinite(np.hstack([v for v in vars_of(values)])).all()


def vars_of(result):
    found = list(result.values()) if isinstance(result, dict) else [result]
    return [np.ravel(v) for item in found for v in vars(item).values() if v is not None]


def test_blocks_sum_to_the_direct_estimate(model, log_weights):
    estimator, ess, _ = estimators(model, log_weights)
    log_r = [
        np.hstack([estimator.log_r(3 * row + column) for column in range(3)]) for row in range(3)
    ]
    log_r = np.vstack(log_r)
    assert log_r.shape == (64, 25)
    for k, found in run_estimator(estimator, quiet=True).items():
        part = log_r[:, :k]
        assert found.log_p == pytest.approx(logsumexp(part, axis=1) - np.log(k), abs=1e-12)
        tilde = 2 * (logsumexp(part / 2, axis=1) - np.log(k))
        assert found.log_p_tilde_star == pytest.approx(tilde, abs=1e-12)
        assert found.bound == pytest.approx(part.mean(axis=1), abs=1e-12)
    found = run_estimator(ess, quiet=True)
    columns = ess.count // 64
    weights = np.exp(np.hstack([ess.log_r(number) for number in range(columns)]))
    assert weights.shape == (1, 9000)
    expected = 100 * weights.sum() ** 2 / (weights**2).sum() / 9000
    assert found.p[0] == pytest.approx(expected, rel=1e-9)
