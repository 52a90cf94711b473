"""The MNIST tables: rows, samples, effective sample sizes, depths."""

from __future__ import annotations

from pathlib import Path

from synthetic_runs import cells, evaluation, write_run

from bihm_repro.report.tables import mnist as mnist_tables
from bihm_repro.report.tables.table import to_markdown
from bihm_repro.runs.reader import read_runs

ADULT = (100, 70, 50, 25)


ROOT = Path(__file__).parents[2]


def test_resampled_pixels_have_their_own_row(tmp_path):
    write_run(tmp_path, "mnist-dynamic", "mnist", evaluated=evaluation(-83.0))
    table = mnist_tables.mnist_table(read_runs(tmp_path)[0])
    assert cells(table, "BiHM, resampled pixels")["difference_estimate"] == "+0.1"
    assert cells(table, "BiHM (12 latent layers)")["estimate"] == "—"


def test_mnist_rows(runs):
    table = mnist_tables.mnist_table(runs)
    assert cells(table, "BiHM (12 latent layers)") == {
        "model": "BiHM (12 latent layers)",
        "bound": "88.50 ± 0.05§",
        "paper_bound": "89.2",
        "difference_bound": "-0.7",
        "estimate": "86.50 ± 0.05§",
        "paper_estimate": "84.3",
        "difference_estimate": "+2.2",
        "updates": "75,000",
        "run": "mnist",
    }
    assert cells(table, "VAE, the authors' own")["difference_estimate"] == "-0.2"
    assert cells(table, "VAE")["difference_estimate"] == "0.0"
    assert cells(table, "BiHM, -log p*")["estimate"] == "86.55 ± 0.05§"
    assert cells(table, "BiHM, -log p*")["bound"] == "—"
    assert cells(table, "RWS (5 latent layers)")["estimate"] == "—"
    assert cells(table, "NADE")["paper_bound"] == "—"
    assert "estimate: K = 1,000." in to_markdown(table)


def test_sensitivity_to_the_number_of_samples(runs):
    table = mnist_tables.samples_table(runs)
    assert cells(table, "mnist§")["k_10"] == "87.50 ± 0.05"
    assert [row[2].text for row in table.rows] == ["-log p", "-log p*", "-log p"]


def test_sensitivity_shows_the_samples_of_the_effective_sample_size(tmp_path):
    more = {"10000": {"log_p": {"value": -86.0, "standard_error": 0.05, "examples": 100}}}
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(-86.5, more_samples=more))
    runs = read_runs(tmp_path)[0]
    table = mnist_tables.samples_table(runs)
    row = cells(table, "mnist")
    assert (row["k_1000"], row["k_10000"]) == ("86.50 ± 0.05", "86.00 ± 0.05")
    assert any("effective sample size" in note for note in table.notes)
    assert cells(mnist_tables.mnist_table(runs), "BiHM (12 latent layers)")["estimate"].startswith(
        "86.50"
    )


def test_effective_sample_sizes(runs):
    texts = [[cell.text for cell in row] for row in mnist_tables.ess_table(runs).rows]
    assert texts[0] == [
        "mnist",
        "BiHM",
        "p*",
        "7.00 ± 0.20§",
        "11.90 ± 1.10",
        "10,000",
        "100",
        "mnist",
    ]
    assert ["mnist", "RWS", "p", "—", "0.10 ± 0.06", "—", "—", "—"] in texts
    assert ["adult", "RWS", "p", "0.10 ± 0.04", "—", "10,000", "100", "adult-rws"] in texts


def test_methods_that_the_paper_has_not_are_listed_on_mnist(results):
    write_run(
        results,
        "mnist-darn",
        "binarized_mnist",
        extra='p_layer = "darn"\n',
        evaluated=evaluation(-83.0),
    )
    table = mnist_tables.mnist_table(read_runs(results)[0])
    assert cells(table, "BiHM-DARN (not in the paper)")["estimate"] == "83.00 ± 0.05"
    assert cells(table, "BiHM (12 latent layers)")["estimate"] == "86.50 ± 0.05§"


def test_exact_log_p_is_no_bound_and_needs_no_samples(tmp_path):
    write_run(
        tmp_path,
        "nade-mnist",
        "binarized_mnist",
        kind="nade",
        evaluated=evaluation(-88.8, counts=(1,), star=False),
    )
    table = mnist_tables.mnist_table(read_runs(tmp_path)[0])
    row = cells(table, "NADE")
    assert (row["bound"], row["estimate"], row["difference_estimate"]) == (
        "—",
        "88.80 ± 0.05",
        "-0.1",
    )


def test_other_runs_are_listed_with_their_active_units(results):
    folder = write_run(
        results, "mnist-2", "binarized_mnist", layers=(30, 10), evaluated=evaluation(-95.0)
    )
    (folder / "log.csv").write_text("updates,seconds,valid_log_p,active_units\n1,1,-99,20 3\n")
    row = cells(mnist_tables.mnist_others_table(read_runs(results)[0]), "mnist-2")
    assert row["layers"] == "30, 10" and row["active_units"] == "20, 3"
    counted = evaluation(-95.0, active_units=[25, 4])
    write_run(results, "mnist-3", "binarized_mnist", layers=(30, 10), evaluated=counted)
    other = cells(mnist_tables.mnist_others_table(read_runs(results)[0]), "mnist-3")
    assert other["active_units"] == "25, 4"
    assert row["estimate"] == "95.00 ± 0.05"
