"""`bihm sample` and `bihm inpaint` on a small run folder, and the pictures they write."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import pytest
from exact import random_parameters
from PIL import Image

from bihm_repro.cli import inpaint, sample
from bihm_repro.cli.main import _Parser
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.samplers.gaussian import GaussianSampler
from bihm_repro.samplers.gibbs import GibbsSettings
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.samplers.images import GAP, grid, parse_shape, write_gif, write_png


def make_run(path, kind="bihm", dataset="bars", sizes=(16, 5, 3), **model):
    folder = RunDirectory(path)
    settings = {"kind": kind, "layers": list(sizes[1:]), **model}
    folder.write_recipe(Recipe.from_dict({"dataset": dataset, "seed": 0, "model": settings}))
    folder.write_model(random_parameters(sizes, seed=0), {"kind": kind})
    return folder


def call(command, *arguments):
    parser = _Parser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


def duration(path):
    """Milliseconds of one round of a GIF: the sum counts a frame that repeats the one before."""
    with Image.open(path) as animation:
        total = 0
        for index in range(animation.n_frames):
            animation.seek(index)
            total += animation.info["duration"]
    return total


@pytest.fixture
def bars_run(tmp_path):
    return make_run(tmp_path / "run")


def test_grid_places_each_picture_and_separates_them():
    pictures = np.array([[0, 0.5, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    pixels = grid(pictures, (2, 2), columns=2, enlarge=2)
    gap = round(255 * (1 - GAP))
    assert pixels.shape == (11, 11)
    assert pixels[1:5, 1:5].tolist() == [[255, 255, 128, 128]] * 2 + [[0, 0, 255, 255]] * 2
    assert np.all(pixels[1:5, 6:10] == 0) and np.all(pixels[6:10, 1:5] == 255)
    assert np.all(pixels[:, 5] == gap) and np.all(pixels[6:10, 6:10] == gap)


def test_small_pictures_are_enlarged_and_odd_counts_fit():
    assert grid(np.zeros((5, 16)), (4, 4)).shape == (2 * (56 + 7) + 7, 3 * (56 + 7) + 7)
    with pytest.raises(InputError, match="3x3 has 9 pixels, but the pictures have 16"):
        grid(np.zeros((5, 16)), (3, 3))


@pytest.mark.parametrize("text", ["28", "28x", "0x4", "axb", "1x2x3", "-1x4"])
def test_bad_shapes_are_refused(text):
    with pytest.raises(InputError, match="expected ROWSxCOLUMNS"):
        parse_shape(text)


def test_files_hold_the_pixels_and_frames_given(tmp_path):
    frames = [np.full((4, 6), level, np.uint8) for level in (0, 100, 255)]
    write_png(tmp_path / "a.png", frames[1])
    write_gif(tmp_path / "a.gif", frames)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), frames[1])
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 3
        levels = []
        for index in range(3):
            animation.seek(index)
            levels.append(int(np.asarray(animation.convert("L"))[0, 0]))
    assert levels == [0, 100, 255]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "a.png"]


def test_evenly_keeps_both_ends():
    assert sample.evenly(0, 60) == [0]
    steps = sample.evenly(1000, 60)
    assert (len(steps), steps[0], steps[-1]) == (60, 0, 1000)


def test_sample_writes_a_grid_a_step_and_the_chains(bars_run, capsys):
    assert (
        call(
            sample,
            bars_run.path,
            "--n",
            9,
            "--gibbs",
            "3,0",
            "--chains",
            2,
            "--gif",
            "--proposals",
            2,
            "--inner",
            2,
        )
        == 0
    )
    names = ["samples-0.png", "samples-3.png", "chains.png", "samples.gif"]
    paths = [bars_run.path / "pictures" / name for name in names]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    sizes = [Image.open(path).size for path in paths]
    side = 63
    assert sizes[0] == sizes[1] == (3 * side + 7, 3 * side + 7)
    assert sizes[2] == (4 * side + 7, 2 * side + 7)
    assert duration(paths[3]) == 3 * 1500 + 1000


def test_the_first_grid_shows_the_means_of_ancestral_samples(bars_run, tmp_path):
    call(sample, bars_run.path, "--n", 4, "--gibbs", "0", "--seed", 7, "--out", tmp_path / "out")
    model = HelmholtzSampler(bars_run.read_model())
    layers = model.sample_p(4, RandomStream(7, "samples"))
    expected = grid(model.expected_x(layers), (4, 4))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "samples-0.png")), expected)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["samples-0.png"]


def test_the_seed_decides_the_pictures(bars_run, tmp_path):
    contents = []
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        call(
            sample,
            bars_run.path,
            "--n",
            4,
            "--gibbs",
            "2",
            "--seed",
            seed,
            "--exact",
            "--oversample",
            3,
            "--out",
            tmp_path / out,
        )
        contents.append((tmp_path / out / "samples-2.png").read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_inpaint_shows_original_seen_part_and_fillings(bars_run, tmp_path, capsys):
    mask = np.full((4, 4), 255, np.uint8)
    mask[1, 2] = 0
    Image.fromarray(mask).save(tmp_path / "dot.png")
    assert (
        call(
            inpaint,
            bars_run.path,
            "--masks",
            f"left,{tmp_path / 'dot.png'}",
            "--n",
            2,
            "--fillings",
            2,
            "--gibbs",
            3,
            "--gif",
        )
        == 0
    )
    pictures = bars_run.path / "pictures"
    names = [
        "inpainting-left.png",
        "inpainting-left.gif",
        "inpainting-dot.png",
        "inpainting-dot.gif",
    ]
    assert capsys.readouterr().out.split() == [str(pictures / name) for name in names]
    pixels = np.asarray(Image.open(pictures / "inpainting-dot.png"))
    # One pixel of each picture, by rows of the grid: original, seen, two fillings.
    tiles = pixels[7:].reshape(2, 63, -1)[:, :56:14, 7:].reshape(2, 4, 4, 63)[..., :56:14]
    tiles = tiles.transpose(0, 2, 1, 3)
    visible = mask == 255
    test_rows = {row.tobytes() for row in load_dataset("bars").splits["test"]}
    for original, seen, *fillings in tiles:
        assert (1 - original // 255).astype(np.uint8).tobytes() in test_rows
        assert seen[1, 2] == 128
        assert all(np.array_equal(part[visible], original[visible]) for part in [seen, *fillings])
    assert duration(pictures / "inpainting-left.gif") == 3 * 1500 + 1000


def test_tables_are_written_as_binary_rows_and_pictures_on_request(tmp_path, bars_run, capsys):
    table = make_run(tmp_path / "table", dataset="adult", sizes=(123, 3))
    assert call(sample, table.path, "--n", 5, "--gibbs", "0,2") == 0
    names = ["samples-0.npy", "samples-0.csv", "samples-2.npy", "samples-2.csv"]
    paths = [table.path / "samples" / name for name in names]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    rows = [np.load(path) for path in paths[::2]]
    first = HelmholtzSampler(table.read_model()).sample_p(5, RandomStream(0, "samples"))[0]
    assert np.array_equal(rows[0], first) and not np.array_equal(rows[1], first)
    for path, expected in zip(paths[1::2], rows):
        assert expected.dtype == np.uint8 and expected.shape == (5, 123)
        assert np.array_equal(np.loadtxt(path, dtype=np.uint8, delimiter=","), expected)

    out = tmp_path / "out"
    call(sample, bars_run.path, "--n", 4, "--gibbs", "0", "--format", "csv,png", "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["samples-0.csv", "samples-0.png"]


def test_rws_is_sampled_from_p_alone(tmp_path):
    folder = make_run(tmp_path / "rws", kind="rws")
    assert call(sample, folder.path, "--n", 4) == 0
    assert [path.name for path in (folder.path / "pictures").iterdir()] == ["samples-0.png"]
    with pytest.raises(InputError, match="a rws model has no Gibbs sampling of p"):
        call(sample, folder.path, "--gibbs", "10")
    with pytest.raises(InputError, match="a rws model has no inpainting, which bihm inpaint needs"):
        call(inpaint, folder.path)


def test_models_with_gaussian_latents_are_sampled_from_p(tmp_path):
    folder = make_run(tmp_path / "iwae", kind="iwae", sizes=(16, 3, 2), hidden=[4])
    folder.write_model(gaussian_arrays(np.random.default_rng(0)), {"kind": "iwae"})
    assert call(sample, folder.path, "--n", 4) == 0
    with pytest.raises(InputError, match="a iwae model has no Gibbs sampling of p"):
        call(sample, folder.path, "--gibbs", "0,1")
    means = GaussianSampler(folder.read_model()).sample_means(4, RandomStream(0, "samples"))
    found = np.asarray(Image.open(folder.path / "pictures" / "samples-0.png"))
    assert np.array_equal(found, grid(means, (4, 4)))


def gaussian_arrays(generator):
    """p of an IWAE: 2 latents, a relu layer of 4, 3 latents, a relu layer of 4, 16 pixels."""
    shapes = {
        "p1.mlp.hidden0": (2, 4),
        "p1.mean": (4, 3),
        "p1.log_variance": (4, 3),
        "p0.mlp.hidden0": (3, 4),
        "p0": (4, 16),
    }
    arrays = {f"{name}.W": generator.standard_normal(shape) for name, shape in shapes.items()}
    return {
        **arrays,
        **{f"{name}.b": generator.standard_normal(shape[1]) for name, shape in shapes.items()},
    }


def test_gaussian_decoder_has_the_moments_of_a_linear_model():
    """Without deterministic layers h_1 is Gaussian, so its logits have a known covariance."""
    generator = np.random.default_rng(0)
    arrays = {
        "p0.W": generator.standard_normal((2, 3)),
        "p0.b": generator.standard_normal(3),
        "p1.mean.W": generator.standard_normal((2, 2)),
        "p1.mean.b": np.array([1.0, -1.0]),
        "p1.log_variance.W": np.zeros((2, 2)),
        "p1.log_variance.b": np.log([4.0, 0.25]),
    }
    n = 100_000
    means = GaussianSampler(arrays).sample_means(n, RandomStream(1, "test")).astype(float)
    logits = np.log(means / (1 - means))
    below = arrays["p1.mean.W"] @ arrays["p0.W"]
    noise = arrays["p0.W"].T @ np.diag([4.0, 0.25]) @ arrays["p0.W"]
    covariance = below.T @ below + noise
    expected = arrays["p1.mean.b"] @ arrays["p0.W"] + arrays["p0.b"]
    error = 5 * np.sqrt(np.diag(covariance) / n)
    assert np.all(np.abs(logits.mean(axis=0) - expected) < error)
    np.testing.assert_allclose(np.cov(logits.T), covariance, rtol=0.03, atol=0.03)


def test_gaussian_decoder_refuses_what_it_cannot_read():
    arrays = gaussian_arrays(np.random.default_rng(0))
    with pytest.raises(InputError, match="'sine': allowed are tanh"):
        GaussianSampler(arrays, SimpleNamespace(activation="sine"))
    del arrays["p1.log_variance.b"]
    with pytest.raises(InputError, match="p1.log_variance.b is missing"):
        GaussianSampler(arrays)


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("p1.log_variance", (5, 3), "p1.mean.W and p1.log_variance.W have shapes"),
        ("p1.mlp.hidden0", (2, 5), r"p1.mlp.hidden0.W has shape \(2, 5\), expected \(2, 4\)"),
        ("p0.mlp.hidden0", (3, 5), r"p0.mlp.hidden0.W has shape \(3, 5\), expected \(3, 4\)"),
        ("p0.mlp.hidden0", (2, 4), "layer p1 has 3 units, expected 2, the inputs of p0"),
    ],
)
def test_gaussian_decoder_refuses_sizes_that_disagree(name, shape, said):
    arrays = gaussian_arrays(np.random.default_rng(0))
    arrays[f"{name}.W"], arrays[f"{name}.b"] = np.zeros(shape), np.zeros(shape[1])
    with pytest.raises(InputError, match=said):
        GaussianSampler(arrays)


def test_gaussian_encoder_refuses_sizes_that_disagree():
    arrays = gaussian_arrays(np.random.default_rng(0))
    for part in ("mean", "log_variance"):
        arrays[f"q0.{part}.W"], arrays[f"q0.{part}.b"] = np.zeros((16, 2)), np.zeros(2)
    with pytest.raises(InputError, match="q0 has 16 inputs and 2 units, expected 16 and 3"):
        GaussianSampler(arrays).posterior_means(np.zeros((1, 16)), 1, 1, RandomStream(0, "test"))


@pytest.mark.parametrize(
    ("sizes", "meta", "said"),
    [
        ((16, 5, 4), {}, r"latent layers \[5, 4\], its recipe \[5, 3\]"),
        ((16, 5, 3), {"data_dim": 5}, "meta has data_dim = 5, its arrays have 16 observed units"),
    ],
)
def test_a_model_of_other_sizes_than_its_recipe_is_refused(bars_run, sizes, meta, said):
    bars_run.write_model(random_parameters(sizes, seed=0), meta)
    with pytest.raises(InputError, match=f"model.npz: its .*{said}"):
        call(sample, bars_run.path)


def test_defaults_on_the_command_line_are_those_of_the_sampler():
    parser = argparse.ArgumentParser()
    sample.add_arguments(parser)
    assert sample.gibbs_settings(parser.parse_args(["run"])) == GibbsSettings()


def test_other_models_and_bad_arguments_are_refused(tmp_path, bars_run):
    with pytest.raises(InputError, match="is not a run folder"):
        call(sample, tmp_path / "nothing")
    table = make_run(tmp_path / "table", dataset="adult", sizes=(123, 3))
    with pytest.raises(InputError, match="no pictures; give --shape ROWSxCOLUMNS with 123"):
        call(sample, table.path, "--format", "png")
    with pytest.raises(InputError, match="no pictures; give --shape ROWSxCOLUMNS with 123"):
        call(inpaint, table.path)
    assert call(sample, table.path, "--shape", "3x41", "--n", 2, "--gibbs", "1") == 0
    for arguments, message in [
        (["--gibbs", "ten"], "expected integers"),
        (["--n", "0"], "--n: '0': an integer of at least 1"),
        (["--chains", "0"], "--chains: '0'"),
        (["--oversample", "0"], "--oversample: '0'"),
        (["--seed", "-1"], "--seed: '-1': an integer of at least 0"),
        (["--format", "npy,gif"], "--format: 'gif'; allowed are png, npy, csv"),
        (["--proposals", "0"], "--proposals: '0'"),
        (["--shape", "5x5"], "25 pixels, but the model of .* has 16"),
    ]:
        with pytest.raises(InputError, match=message):
            call(sample, bars_run.path, *arguments)
    for arguments, message in [
        (["--masks", "middle"], "'middle' is neither left"),
        (["--n", "501"], "test split of bars has 500"),
        (["--gibbs", "-1"], "--gibbs: '-1'"),
        (["--fillings", "0"], "--fillings: '0'"),
    ]:
        with pytest.raises(InputError, match=message):
            call(inpaint, bars_run.path, *arguments)
