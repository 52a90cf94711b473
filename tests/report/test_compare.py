"""Runs side by side: the order, what differs, the files, and folders that cannot be read."""

from __future__ import annotations

import csv
import json

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.cli.main import main
from bihm_repro.report.compare import comparison_table, differences, read_named_runs


def with_validation(folder, value):
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "best_valid": value}))
    return folder


@pytest.fixture
def folders(tmp_path):
    """Three runs whose order on test is the reverse of that on validation."""
    options = {"epochs": 4, "dim": 0}
    first = write_run(tmp_path, "a", "dna", seed=1, evaluated=evaluation(-80.0), **options)
    second = write_run(
        tmp_path,
        "b",
        "dna",
        seed=0,
        layers=(4, 2),
        evaluated=evaluation(-85.0),
        extra="[training]\nl1 = 0.1\n",
        **options,
    )
    third = write_run(tmp_path, "c", "dna", seed=0, evaluated=evaluation(-90.0), **options)
    return [
        with_validation(folder, value)
        for folder, value in ((first, -83.0), (second, -82.0), (third, -81.0))
    ]


def test_best_on_validation_comes_first_whatever_the_test_says(folders):
    table = comparison_table(read_named_runs(folders)[0])
    assert [row[0].value for row in table.rows] == [str(folders[i]) for i in (2, 1, 0)]
    assert [row[2].text for row in table.rows] == ["81.00", "82.00", "83.00"]
    assert [row[4].text for row in table.rows] == ["90.00 ± 0.05", "85.00 ± 0.05", "80.00 ± 0.05"]


def test_what_differs_between_recipes(folders):
    assert differences(read_named_runs(folders)[0]) == {
        "seed": ["1", "0", "0"],
        "model.layers": ["3, 2", "4, 2", "3, 2"],
        "training.l1": [None, "0.1", None],
    }


def test_phases_are_compared_one_by_one(tmp_path):
    phases = "[[phases]]\nsamples = 10\n[[phases]]\nsamples = {}\n"
    paths = [
        write_run(tmp_path, name, "dna", extra=phases.format(count))
        for name, count in (("a", 10), ("b", 100))
    ]
    assert differences(read_named_runs(paths)[0]) == {"phases.2.samples": ["10", "100"]}


def test_a_run_without_validation_comes_last(folders, tmp_path):
    folder = write_run(tmp_path, "0-new", "dna")
    (folder / "status.json").write_text("{}")
    table = comparison_table(read_named_runs([folder, *folders])[0])
    assert table.rows[-1][0].value == str(folder) and table.rows[-1][2].text == "—"


def test_command_prints_and_writes_and_leaves_out_what_is_unreadable(folders, tmp_path, capsys):
    (write_run(tmp_path, "bad", "dna") / "recipe.toml").write_text("=")
    out = tmp_path / "out"
    names = [*map(str, folders), str(tmp_path / "bad")]
    assert main(["compare", *names, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "| valid -log p |" in printed.out
    assert len([line for line in printed.err.splitlines() if line.startswith("left out")]) == 1
    rows = list(csv.DictReader((out / "comparison.csv").open()))
    assert [row["valid_nll_p"] for row in rows] == ["81", "82", "83"]
    assert (out / "comparison.md").read_text() in printed.out
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_command_refuses_where_nothing_can_be_read(tmp_path, capsys):
    assert main(["compare", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
