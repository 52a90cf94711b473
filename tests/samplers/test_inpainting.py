"""Inpainting: known pixels stay, unknown ones follow p* given them."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters
from PIL import Image
from scipy import stats

from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers import gibbs
from bihm_repro.samplers.gibbs import GibbsSettings
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.samplers.inpainting import inpainting_chain, known_pixels, start_inpainting


def conditional_of_unknown(model, pattern, known):
    """p*(x | known values) on all x, zero where x differs from the pattern in a known place."""
    agrees = np.all(model.all_x[:, known] == pattern[known], axis=1)
    star = np.where(agrees, np.exp(model.log_p_star()), 0)
    return star / star.sum()


@pytest.mark.parametrize("sizes", [[4, 2], [4, 2, 2]])
def test_unknown_pixels_follow_p_star_given_the_known_ones(sizes):
    model = ExactModel(random_parameters(sizes, seed=2))
    pair = HelmholtzSampler(model.parameters)
    pattern, known = np.array([1.0, 0, 1, 0]), np.array([True, False, False, True])
    x = np.repeat(pattern[None], 8_000, axis=0)
    random = RandomStream(0, "test")
    for state in inpainting_chain(
        pair, x, known, 20, random, GibbsSettings(3, 2, keep_current=True)
    ):
        assert np.array_equal(state.x[:, known], x[:, known])
    numbers = (state.x @ [8, 4, 2, 1]).astype(int)
    counts = np.bincount(numbers, minlength=16)
    target = conditional_of_unknown(model, pattern, known)
    possible = target > 0
    assert counts[~possible].sum() == 0
    found = stats.chisquare(counts[possible], target[possible] * len(x))
    assert found.pvalue > 0.01
    ancestral = np.where(possible, np.exp(model.log_p()), 0)
    wrong = stats.chisquare(counts[possible], ancestral[possible] / ancestral.sum() * len(x))
    assert wrong.pvalue < 1e-4


@pytest.mark.parametrize("block", [gibbs.BLOCK, 2000])
def test_each_chain_has_its_own_mask_and_grey_values_stay(monkeypatch, block):
    monkeypatch.setattr(gibbs, "BLOCK", block)  # 2000: three chains at a time, two at the end
    pair = HelmholtzSampler(random_parameters([6, 3], seed=0))
    random = RandomStream(0, "test")
    x = random.uniform((20, 6))
    known = random.uniform((20, 6)) < 0.5
    states = list(inpainting_chain(pair, x, known, 5, random))
    assert len(states) == 6
    for state in states:
        assert np.array_equal(state.x[known], x[known])
        assert set(np.unique(state.x[~known])) <= {0, 1}
    assert not np.array_equal(states[0].x, states[-1].x)


def test_hidden_values_are_never_looked_at():
    pair = HelmholtzSampler(random_parameters([6, 3], seed=0))
    known = np.array([True, True, True, False, False, False])
    x = np.ones((5, 6), np.float32)
    other = np.where(known, x, np.nan)
    one = start_inpainting(pair, x, known, RandomStream(1, "test"))
    two = start_inpainting(pair, other, known, RandomStream(1, "test"))
    assert np.array_equal(one.x, two.x)


@pytest.mark.parametrize(
    "mask, expected",
    [
        ("left", [[0, 0, 1, 1, 1], [0, 0, 1, 1, 1]]),
        ("right", [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0]]),
        ("top", [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]),
        ("bottom", [[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]),
    ],
)
def test_half_masks_hide_the_half_they_name(mask, expected):
    known = known_pixels(mask, (2, 5), 3, RandomStream(0, "test"))
    assert known.shape == (3, 10)
    assert np.array_equal(known[2].reshape(2, 5), np.array(expected, bool))


def test_blocks_are_rectangles_in_different_places():
    known = known_pixels("block", (8, 6), 30, RandomStream(0, "test")).reshape(30, 8, 6)
    for picture in known:
        rows, columns = np.nonzero(~picture)
        assert (np.ptp(rows) + 1, np.ptp(columns) + 1, len(rows)) == (4, 3, 12)
    assert len({picture.tobytes() for picture in known}) > 5


def test_a_picture_hides_where_it_is_dark(tmp_path):
    grey = np.array([[0, 255, 100], [200, 127, 128]], np.uint8)
    Image.fromarray(grey).save(tmp_path / "mask.png")
    known = known_pixels(str(tmp_path / "mask.png"), (2, 3), 2, RandomStream(0, "test"))
    assert known.astype(int).tolist() == [[0, 1, 0, 1, 0, 1]] * 2


def test_bad_masks_and_inputs_are_refused(tmp_path):
    random = RandomStream(0, "test")
    with pytest.raises(InputError, match="'middle' is neither left, right"):
        known_pixels("middle", (2, 2), 1, random)
    (tmp_path / "mask.png").write_text("not a picture")
    with pytest.raises(InputError, match="not a picture"):
        known_pixels(str(tmp_path / "mask.png"), (2, 2), 1, random)
    Image.new("L", (3, 2)).save(tmp_path / "wide.png")
    with pytest.raises(InputError, match="has 2x3 pixels .* expected 2x2"):
        known_pixels(str(tmp_path / "wide.png"), (2, 2), 1, random)
    pair = HelmholtzSampler(random_parameters([4, 2], seed=0))
    known = np.ones(4, bool)
    with pytest.raises(InputError, match=r"expected \(chains, 4\)"):
        start_inpainting(pair, np.zeros((2, 5)), known, random)
    with pytest.raises(InputError, match="known: int64"):
        start_inpainting(pair, np.zeros((2, 4)), np.ones(4, np.int64), random)
    with pytest.raises(InputError, match="outside"):
        start_inpainting(pair, np.full((2, 4), 255.0), known, random)
