"""Rows, seeds and parameters as users give them."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import scipy.sparse

from bihm_repro import VAE, BiHM
from bihm_repro.api.arrays import as_rows, new_seed
from bihm_repro.errors import InputError

ROWS = np.array([[0, 1, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        ROWS.tolist(),
        ROWS.astype(bool),
        ROWS.astype(np.float64),
        ROWS.astype(object),
        pandas.DataFrame(ROWS),
        scipy.sparse.csr_matrix(ROWS),
        scipy.sparse.coo_matrix(ROWS),
    ],
)
def test_rows_of_every_type_are_the_same(given):
    rows = as_rows(given)
    assert rows.dtype == np.uint8 and np.array_equal(rows, ROWS)


def test_grey_levels_stay_and_a_threshold_makes_bits():
    assert as_rows([[0.25, 1]]).dtype == np.float32
    assert np.array_equal(as_rows([[-3, 0.5, 7]], threshold=0.5), [[0, 0, 1]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(3), "Reshape your data"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((2, 0)), r"0 feature\(s\)"),
        ([[0, np.nan]], "NaN in row 0"),
        ([[0, 1], [0, np.inf]], "inf in row 1"),
        ([[0, 2]], "X holds 2 in row 0"),
        ([["a"]], "not numbers"),
        (np.ones((1, 1), complex), "Complex data not supported"),
    ],
)
def test_bad_rows_are_named(given, message):
    with pytest.raises(InputError, match=message):
        as_rows(given)


def test_seeds():
    assert new_seed(3) == 3 and new_seed(None) != new_seed(None)
    assert new_seed(np.random.RandomState(5)) == new_seed(np.random.RandomState(5))
    with pytest.raises(InputError, match="seed is 'a'"):
        new_seed("a")


def test_columns_of_a_table_must_be_those_of_fit(trained):
    model = trained[0]
    frame = pandas.DataFrame(ROWS, columns=["a", "b", "c"])
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    try:
        assert model.transform(frame).shape == (2, 4)
        with pytest.raises(InputError, match="column 0 is 'b', it was 'a'"):
            model.transform(frame[["b", "a", "c"]])
    finally:
        del model.feature_names_in_


def test_parameters_are_those_of_the_signature():
    model = BiHM((9, 4), l1=0.5)
    assert model.get_params()["layers"] == (9, 4) and model.get_params()["l1"] == 0.5
    assert model.set_params(samples=3) is model and model.samples == 3
    assert repr(model) == "BiHM(layers=(9, 4), samples=3, l1=0.5)"
    assert "l1 : L1 penalty" in BiHM.__doc__ and "inpaint" not in dir(VAE())
    with pytest.raises(InputError, match=r"no parameter 'wieghts' \(did you mean 'weights'\?\)"):
        model.set_params(wieghts="glorot")
    with pytest.raises(TypeError, match="did you mean 'weights'"):
        BiHM(wieghts="glorot")


def test_a_subclass_may_have_its_own_constructor():
    class Deep(BiHM):
        def __init__(self, depth=3):
            super().__init__(layers=(10,) * depth)
            self.depth = depth

    assert Deep(2).layers == (10, 10)
