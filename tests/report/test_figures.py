"""Figures from run folders with known numbers: the files, the CSV behind them, what is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic_runs import evaluation, parameters, write_run

from bihm_repro.cli.main import main
from bihm_repro.errors import InputError
from bihm_repro.report.figures import (
    CAPTIONS,
    FIGURES,
    chosen_figures,
    curves,
    images,
    make_figure,
    samples,
    uci,
)
from bihm_repro.report.figures.style import PAGE_WIDTH, SERIES, image_grid, save_plot, style_context
from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.runs.reader import read_runs

ROOT = Path(__file__).parents[2]
Z_TRACE = (
    "run,k_inner,k_outer,log_z2\n0,1,10,-3\n1,1,10,-5\n0,1,100,-3.5\n1,1,100,-3.7\n0,10,10,-4\n"
)


def runs_of(folder):
    return read_runs(folder)[0]


@pytest.fixture
def mnist(tmp_path):
    """A small BiHM with a model, a log and a trace of Z; a VAE with a log."""
    folder = write_run(
        tmp_path,
        "mnist",
        "binarized_mnist",
        layers=(8, 4),
        epochs=6,
        dim=784,
        evaluated=evaluation(-86.0),
    )
    (folder / "z_trace.csv").write_text(Z_TRACE)
    write_run(
        tmp_path,
        "mnist-vae",
        "binarized_mnist",
        kind="vae",
        layers=(4,),
        epochs=4,
        evaluated=evaluation(-88.0, star=False),
    )
    return tmp_path


def test_sensitivity_to_k_includes_the_samples_of_the_effective_sample_size(tmp_path):
    more = {"10000": {"log_p": {"value": -85.5, "standard_error": 0.05, "examples": 100}}}
    evaluated = evaluation(-86.0, star=False, more_samples=more)
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluated)
    numbers, _ = samples.sensitivity(runs_of(tmp_path))
    assert dict(zip(numbers["samples"], numbers["log_likelihood"]))[10_000] == -85.5


def test_sensitivity_to_k_is_that_of_the_evaluations(mnist):
    numbers, missing = samples.sensitivity(runs_of(mnist))
    by_series = {
        name: dict(zip(part["samples"], part["log_likelihood"]))
        for name, part in numbers.groupby("series")
    }
    assert by_series == {
        "BiHM": {1: -88.0, 10: -87.0, 1000: -86.0},
        "BiHM p*": {1: -88.05, 10: -87.05, 1000: -86.05},
        "VAE": {1: -90.0, 10: -89.0, 1000: -88.0},
    }
    assert missing == [
        "C: no evaluated RWS run on binarized_mnist",
        "C: no evaluated IWAE run on binarized_mnist",
    ]


def test_spread_of_the_partition_function(mnist):
    run = next(run for run in runs_of(mnist) if run.name == "mnist")
    spread = curves.z_spread(run.z_trace).set_index(["k_inner", "k_outer"])
    assert spread.loc[(1, 10), "mean"] == -4
    assert spread.loc[(1, 10), "deviation"] == pytest.approx(np.sqrt(2))
    assert spread.loc[(10, 10), "total"] == 100
    assert spread.loc[(10, 10), "deviation"] == 0 and spread.loc[(10, 10), "runs"] == 1


def test_course_of_training_subtracts_the_partition_function(mnist):
    run = next(run for run in runs_of(mnist) if run.name == "mnist")
    assert curves.measured_counts(run.log) == [1, 1000]
    curve = curves.measured_curve(run.log, 1000)
    assert list(curve["updates"]) == [1000, 2000, 3000]
    assert curve["log_p"].iloc[0] == -125
    assert curve["log_p_star"].iloc[0] == -125 - 2 + 2.5


def test_learning_curves_share_the_number_of_samples(mnist):
    numbers, missing = curves.learning_curves(runs_of(mnist))
    assert set(numbers["samples"]) == {1000}
    assert dict(numbers.groupby("method")["updates"].max()) == {"BiHM": 3000, "VAE": 2000}
    assert numbers["minutes"].iloc[0] == 1.0
    assert [line.split()[1] for line in missing] == ["RWS", "IWAE"]


def test_a_run_that_continues_another_is_marked_and_has_no_learning_curve(mnist):
    write_run(
        mnist,
        "vae-mnist",
        "binarized_mnist",
        kind="vae",
        layers=(4,),
        epochs=6,
        evaluated=evaluation(-87.0, star=False),
        extra='[initial]\nsource = "results/mnist-vae"\n',
    )
    runs = runs_of(mnist)
    numbers, _ = curves.learning_curves(runs)
    assert set(numbers["run"]) == {"mnist", "mnist-vae"}
    marks = {run.name: marks_of(run) for run in runs}
    assert marks == {"mnist": "", "mnist-vae": "", "vae-mnist": "»"}
    assert notes_for(runs) == [
        "» started from the parameters of another run: updates are those since."
    ]


def test_learning_curves_prefer_a_run_that_is_long_enough(mnist, monkeypatch):
    """Before the plainly named run, which has fewer updates."""
    write_run(mnist, "vae-long", "binarized_mnist", kind="vae", layers=(4,), epochs=6)
    runs = runs_of(mnist)
    long = next(run for run in runs if run.name == "vae-long")
    numbers, _ = curves.learning_curves(runs)
    assert set(numbers["run"]) == {"mnist", "mnist-vae"}
    monkeypatch.setattr(curves, "LONG_RUN", long.log["updates"].max())
    numbers, _ = curves.learning_curves(runs)
    assert set(numbers["run"]) == {"mnist", "vae-long"}


def test_learning_curves_show_the_best_of_every_kind(mnist):
    """However far behind the others it is."""
    runs = runs_of(mnist)
    vae = next(run for run in runs if run.name == "mnist-vae")
    vae.log[[c for c in vae.log if c.startswith("test_log_p")]] -= 100.0
    plot = curves.plot_learning_curves(runs)
    best = plot.numbers[""].groupby("method")["log_p"].max()
    assert best["VAE"] < best["BiHM"] - 50
    assert plot.figure.axes[0].get_ylim()[0] < best["VAE"]


def test_uci_dots_leave_out_what_cannot_be_compared(tmp_path):
    write_run(tmp_path, "adult", "adult", evaluated=evaluation(-13.5))
    write_run(tmp_path, "rws/adult", "adult", kind="rws", evaluated=evaluation(-13.9, star=False))
    write_run(tmp_path, "rcv1_surrogate", "rcv1_surrogate", evaluated=evaluation(-50.0))
    numbers, missing = uci.uci_numbers(runs_of(tmp_path))
    assert numbers[["set", "nll_p", "paper_nll_p", "rws_nll_p", "ess"]].values.tolist() == [
        ["adult", 13.5, 13.78, 13.9, 81.0]
    ]
    assert missing == [
        "rcv1: rcv1_surrogate is not comparable with the paper's set",
        "no evaluated run on connect4, dna, mushrooms, nips, ocr_letters, web",
    ]


def test_figures_are_saved_in_both_formats_with_their_numbers(mnist, tmp_path):
    out = tmp_path / "out"
    paths, missing = make_figure("learning-curves", runs_of(mnist), out)
    assert [path.name for path in paths] == [
        "learning-curves.png",
        "learning-curves.pdf",
        "learning-curves.csv",
    ]
    with Image.open(paths[0]) as picture:
        assert picture.width == round(PAGE_WIDTH * 200)
        assert np.asarray(picture.convert("L")).min() < 100
    assert paths[1].read_bytes().startswith(b"%PDF")
    assert pd.read_csv(paths[2])["log_p"].max() == pytest.approx(-100 - 50 / 6)
    assert len(missing) == 2


def test_the_same_run_gives_the_same_files(mnist, tmp_path):
    contents = []
    for name in ("first", "again"):
        with style_context():
            paths = save_plot(curves.plot_run(runs_of(mnist)[0]), tmp_path / name)
        contents.append([path.read_bytes() for path in paths])
    assert len(contents[0]) == 3 and contents[0] == contents[1]


def test_samples_come_from_the_model(mnist):
    run = next(run for run in runs_of(mnist) if run.name == "mnist")
    before, after = images.sample_means(run, 5, 2)
    assert before.shape == after.shape == (5, 784)
    stored = parameters(784, (8, 4))
    states = (np.arange(256)[:, None] >> np.arange(8)) & 1
    means = 1 / (1 + np.exp(-(states @ stored["p0.W"] + stored["p0.b"])))
    for means_shown in (before, after):
        distances = np.abs(means_shown[:, None] - means).max(axis=2)
        assert (distances.min(axis=1) < 1e-5).all()
    assert not np.array_equal(before, after)
    assert np.array_equal(before, images.sample_means(run, 5, 2)[0])


def test_sample_panels_hold_their_images(mnist, tmp_path):
    with style_context():
        plot = samples.plot_samples(runs_of(mnist), side=2)
        paths = save_plot(plot, tmp_path / "samples")
    assert {path.name for path in paths} == {
        "samples.png",
        "samples.pdf",
        "samples.csv",
        "samples-a.csv",
        "samples-b.csv",
        "samples-source.json",
    }
    assert pd.read_csv(tmp_path / "samples-a.csv").shape == (4, 784)


def test_inpainting_keeps_what_is_known(mnist):
    run = next(run for run in runs_of(mnist) if run.name == "mnist")
    pixels = (np.random.default_rng(0).random((4, 784)) < 0.3).astype("float32")
    result = images.inpaint(run, pixels, repeats=2, gibbs_steps=2)
    known, filled = result["-known"].astype(bool), result[""].reshape(4, 2, 784)
    assert (~known).any(axis=1).all() and known.any(axis=1).all()
    for filling in (0, 1):
        assert np.array_equal(filled[:, filling][known], 255 * pixels[known])
    assert not np.array_equal(filled[:, 0][~known], filled[:, 1][~known])


def test_pictures_are_kept_until_the_model_changes(mnist, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with style_context():
        first = samples.plot_samples(runs_of(mnist), folder=out, side=2)
        save_plot(first, tmp_path / "out" / "samples", formats=())
        monkeypatch.setattr(images, "sample_means", lambda *_: pytest.fail("sampled again"))
        again = samples.plot_samples(runs_of(mnist), folder=out, side=2)
        for suffix in ("-a", "-b"):
            assert first.numbers[suffix].equals(again.numbers[suffix])
        with pytest.raises(pytest.fail.Exception, match="sampled again"):
            samples.plot_samples(runs_of(mnist), folder=out, side=3)
        np.savez(mnist / "mnist" / "model.npz", **parameters(784, (8, 3)))
        with pytest.raises(pytest.fail.Exception, match="sampled again"):
            samples.plot_samples(runs_of(mnist), folder=out, side=2)


def test_inpainting_says_when_the_data_are_missing(mnist, tmp_path):
    paths, missing = make_figure(
        "inpainting", runs_of(mnist), tmp_path / "out", data=str(tmp_path / "nowhere")
    )
    assert paths == [] and "bihm data binarized_mnist" in missing[0]


def test_without_runs_nothing_is_drawn_and_everything_is_said(tmp_path):
    for name in FIGURES:
        paths, missing = make_figure(name, [], tmp_path)
        assert paths == [] and missing
    assert list(tmp_path.iterdir()) == []


def test_a_runs_curve_keeps_validation_in_view(tmp_path):
    folder = write_run(tmp_path, "nips", "nips", epochs=4)
    rows = "".join(
        f"{epoch},{epoch},{train},{valid}\n"
        for epoch, train, valid in [
            (1, -500, -400),
            (2, -290, -300),
            (3, -250, -280),
            (4, -200, -290),
        ]
    )
    (folder / "log.csv").write_text("updates,seconds,train_log_p,valid_log_p\n" + rows)
    lower, upper = curves.plot_run(runs_of(tmp_path)[0]).figure.axes[0].get_ylim()
    assert lower < -300 and -280 < upper < -180


def test_a_runs_curve_breaks_where_k_changes(tmp_path):
    """Training with K = 5 throughout; validation with 10, but 100 in the second phase."""
    folder = write_run(
        tmp_path, "nips", "nips", extra="[[phases]]\n[[phases]]\nvalid_samples = 100\n"
    )
    rows = "".join(
        f"{phase},{epoch},{epoch},5,-300,{valid}\n"
        for epoch, (phase, valid) in enumerate(
            [(0, -310), (0, -305), (1, -290), (1, -289), (1, -288)]
        )
    )
    (folder / "log.csv").write_text(
        "phase,updates,seconds,samples,train_log_p,valid_log_p\n" + rows
    )
    lines = curves.plot_run(runs_of(tmp_path)[0]).figure.axes[0].get_lines()
    assert [list(line.get_ydata()) for line in lines] == [
        [-300] * 5,
        [-310, -305],
        [-290, -289, -288],
    ]


def test_a_run_without_a_log_has_no_curve(tmp_path):
    write_run(tmp_path, "dna", "dna")
    assert curves.plot_run(runs_of(tmp_path)[0]).figure is None


def test_image_grid_is_ink_on_white():
    picture = image_grid(np.array([[1.0, 0.0], [0.0, 0.25], [1.0, 1.0]]), (1, 2), columns=2, gap=1)
    assert picture.tolist() == [[0, 1, 1, 1, 0.75], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]


def test_series_differ_without_colour():
    lines = [series for name, series in SERIES.items() if name != "log z2"]
    assert len({str(series.dashes) for series in lines}) == len(lines)
    assert len({series.marker for series in SERIES.values()}) == len(SERIES)


def test_names_of_figures():
    assert chosen_figures([]) == chosen_figures(["uci", "all"]) == list(FIGURES)
    assert set(CAPTIONS) == set(FIGURES)
    with pytest.raises(InputError, match="'moon'.*samples"):
        chosen_figures(["moon"])


def test_command_draws_and_says_what_is_missing(mnist, capsys):
    assert main(["figures", "learning-curves", "uci", "--results", str(mnist)]) == 0
    printed = capsys.readouterr()
    assert (mnist / "figures" / "learning-curves.pdf").exists()
    assert "learning-curves: left out: no RWS run" in printed.err
    assert "uci: not plotted: no evaluated run on adult, connect4" in printed.err
    assert "uci" not in printed.out
    assert main(["figures", "moon", "--results", str(mnist)]) == 2


def test_figures_need_no_engine(mnist):
    code = (
        "import sys; from bihm_repro.runs import reader; "
        "from bihm_repro.report.figures import FIGURES; "
        f"found = reader.read_runs({str(mnist)!r})[0]; "
        "names = ('samples', 'partition-function', 'learning-curves'); "
        "assert all(FIGURES[name](found).figure for name in names); "
        "print(sorted({'theano', 'pytensor', 'jax', 'matplotlib.pyplot'} & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "[]"
