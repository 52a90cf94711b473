"""Streams: order, resumption, binarization, and what a batch costs."""

import hashlib
import pickle

import numpy as np
import pytest
from picklable_itertools.extras import partition_all

from bihm_repro.datasets.streams import (
    BatchStream,
    bernoulli,
    fixed_sample,
    shuffled_order,
    uniform_rows,
)
from bihm_repro.errors import InputError


def numbered(examples=23, dim=3):
    """Rows that say their own number."""
    return np.repeat(np.arange(examples, dtype=np.float32)[:, None], dim, axis=1)


def order_of(stream, epoch, start=0):
    return np.concatenate([batch[:, 0] for batch in stream.epoch(epoch, start)]).astype(int)


def test_every_example_comes_once_an_epoch_and_the_last_batch_is_smaller():
    stream = BatchStream(numbered(), 5, seed=1)
    batches = list(stream.epoch(0))
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]
    assert stream.batches == 5
    assert sorted(order_of(stream, 0)) == list(range(23))


def test_order_depends_on_seed_and_epoch_alone():
    first, second = BatchStream(numbered(200), 7, seed=3), BatchStream(numbered(200), 11, seed=3)
    assert (order_of(first, 4) == order_of(second, 4)).all()
    assert (order_of(first, 4) != order_of(first, 5)).any()
    assert (order_of(first, 4) != order_of(BatchStream(numbered(200), 7, seed=4), 4)).any()


def test_order_and_bits_are_pinned():
    # Committed runs resume with these bits: numpy promises that Philox's raw words never change.
    assert shuffled_order(8, seed=0, epoch=0).tolist() == [5, 6, 1, 0, 3, 4, 2, 7]
    uniform = np.random.Philox(key=[1, 2]).random_raw(50 * 13).reshape(50, 13) / 2.0**64
    digest = hashlib.sha256()
    for array, binarize in ((uniform.astype("f4"), True), ((uniform > 0.5).astype("u1"), False)):
        stream = BatchStream(array, 7, seed=9, binarize=binarize)
        for epoch, start in ((0, 0), (3, 2)):
            for batch in stream.epoch(epoch, start):
                digest.update(batch.tobytes())
    digest.update(fixed_sample((uniform * 255).astype("u1"), 255, "valid").tobytes())
    assert digest.hexdigest() == (
        "0b945a0ff9a742f153a58f0a50e62da26bc72d09739a230632ab34c20780a9f4"
    )


def test_every_position_is_equally_likely():
    places = np.array(
        [np.flatnonzero(shuffled_order(10, 5, epoch) == 0)[0] for epoch in range(4000)]
    )
    counts = np.bincount(places, minlength=10)
    standard_error = np.sqrt(4000 * 0.1 * 0.9)
    assert np.abs(counts - 400).max() < 4 * standard_error


@pytest.mark.parametrize("binarize", [True, False])
@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_starting_in_the_middle_gives_the_rest_bit_for_bit(binarize, start):
    array = np.random.default_rng(0).random((23, 9), dtype=np.float32)
    stream = BatchStream(array, 5, seed=2, binarize=binarize)
    rest, whole = list(stream.epoch(3, start)), list(stream.epoch(3))[start:]
    assert len(rest) == len(whole) == 5 - start
    for left, right in zip(rest, whole):
        assert np.array_equal(left, right)


@pytest.mark.parametrize("binarize", [True, False])
def test_an_epoch_continues_after_pickling(binarize):
    array = np.random.default_rng(0).random((23, 9), dtype=np.float32)
    stream = BatchStream(array, 5, seed=2, binarize=binarize)
    epoch = stream.epoch(3)
    next(epoch), next(epoch)
    copy = pickle.loads(pickle.dumps(epoch))
    left, right = list(epoch), list(copy)
    assert len(left) == len(right) == 3
    assert all(np.array_equal(a, b) for a, b in zip(left, right))
    again = pickle.loads(pickle.dumps(stream)).epoch(3, 2)
    assert all(np.array_equal(a, b) for a, b in zip(left, again))


def test_fresh_binarization_each_epoch_with_the_right_means():
    grey = np.tile(np.array([0.0, 0.25, 0.5, 0.9, 1.0], dtype=np.float32), (4000, 1))
    stream = BatchStream(grey, 100, seed=0, binarize=True)
    draws = [np.concatenate(list(stream.epoch(epoch))) for epoch in (0, 1)]
    again = np.concatenate(list(stream.epoch(0)))
    assert np.array_equal(draws[0], again)
    assert set(np.unique(draws[0])) == {0.0, 1.0}
    for drawn in draws:
        assert (drawn[:, 0] == 0).all() and (drawn[:, 4] == 1).all()
        error = np.sqrt(grey[0] * (1 - grey[0]) / 4000)
        assert (np.abs(drawn.mean(axis=0) - grey[0]) <= 4 * error).all()
    agreement = (draws[0][:, 2] == draws[1][:, 2]).mean()
    assert abs(agreement - 0.5) < 4 * 0.5 / np.sqrt(4000)


def test_binarization_does_not_depend_on_the_batch_size():
    grey = np.random.default_rng(1).random((50, 13), dtype=np.float32)
    small, large = (
        np.concatenate(list(BatchStream(grey, size, seed=9, binarize=True).epoch(2)))
        for size in (3, 50)
    )
    assert np.array_equal(small, large)


def test_uniforms_can_be_made_from_any_row_on():
    whole = uniform_rows((1, 2), 0, 10, 17)
    assert np.array_equal(uniform_rows((1, 2), 4, 6, 17), whole[4:])
    assert whole.dtype == np.float32 and 0 <= whole.min() and whole.max() < 1


def test_bernoulli_is_certain_at_the_ends():
    ends = np.array([[0.0, 1.0]] * 1000, dtype=np.float32)
    drawn = bernoulli(ends, (0, 0))
    assert not drawn[:, 0].any() and drawn[:, 1].all()


def test_batches_of_any_type_are_float32():
    for kind in (np.uint8, np.float32, np.float64):
        batch = next(BatchStream(numbered().astype(kind), 5, seed=0).epoch(0))
        assert batch.dtype == np.float32 and batch.flags.c_contiguous


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 0}, {"seed": -1}, {"array": np.zeros((0, 3))}, {"array": np.zeros(3)}],
)
def test_bad_streams_are_refused(arguments):
    given = {"array": numbered(), "batch_size": 5, "seed": 0, **arguments}
    with pytest.raises(InputError):
        BatchStream(**given)


def test_a_start_outside_the_epoch_is_refused():
    stream = BatchStream(numbered(), 5, seed=0)
    assert list(stream.epoch(0, 5)) == []
    for start in (-1, 6):
        with pytest.raises(InputError, match="outside 0 to 5"):
            stream.epoch(0, start)


def test_requests_are_those_of_fuels_own_batching():
    """Fuel cut its epochs with picklable-itertools; a stream has the same rows."""
    order = shuffled_order(23, seed=4, epoch=2)
    fuels = [list(rows) for rows in partition_all(5, list(order))]
    ours = [batch[:, 0].astype(int).tolist() for batch in BatchStream(numbered(), 5, 4).epoch(2)]
    assert ours == fuels
