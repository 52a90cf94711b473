"""The paper's schedule beside our recipes, from run folders with known numbers."""

from __future__ import annotations

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.tables.schedules import changes, paper_run, schedules_table
from bihm_repro.runs.reader import read_runs

PAPER = "[training]\nl1 = 1e-3\ncentred = {}\n[[phases]]\nsamples = 10\nlearning_rate = 1e-3\n"
OURS = (
    'weights = "glorot"\n[training]\nl1 = 1e-3\ncentred = true\n[[phases]]\nsamples = 10\n'
    "learning_rate = 1e-2\naverage_over = 400\n"
)


@pytest.fixture
def runs(tmp_path):
    for name, value, extra in (
        ("paper/dna", 90.0, PAPER.format("false")),
        ("paper/dna-centred", 88.0, PAPER.format("true")),
        ("dna", 82.0, OURS),
    ):
        write_run(tmp_path, name, "dna", evaluated=evaluation(-value), extra=extra)
    return read_runs(tmp_path)[0]


def test_one_row_per_set_with_all_three(runs):
    table = schedules_table(runs)
    (row,) = table.rows
    found = dict(zip([column.key for column in table.columns], row))
    assert found["set"].value == "dna"
    assert found["paper_nll_p"].value == 86.49
    assert found["written_nll_p"].value == 90.0
    assert found["centred_nll_p"].value == 88.0
    assert found["ours_nll_p"].value == 82.0
    assert found["changes"].value == "initial weights, rates, averages, centring"


def test_changes_are_named(tmp_path, runs):
    by_name = {run.name: run for run in runs}
    assert changes(by_name["paper/dna-centred"], by_name["paper/dna"]) == ["centring"]
    write_run(tmp_path, "other", "dna", extra=PAPER.format("false").replace("1e-3", "4e-3"))
    other = next(run for run in read_runs(tmp_path)[0] if run.name == "other")
    assert changes(other, by_name["paper/dna"]) == ["rates", "L1"]
    extra = PAPER.format("false").replace("[training]", "[training]\ntotal_variation = 0.01")
    write_run(tmp_path, "smooth", "dna", extra=extra)
    smooth = next(run for run in read_runs(tmp_path)[0] if run.name == "smooth")
    assert changes(smooth, by_name["paper/dna"]) == ["total variation"]
    for setting, name in (
        ("restart_dead = true", "restarts"),
        ("above = 1", "layers apart"),
        ("sleep = 1.0", "sleep term"),
    ):
        extra = PAPER.format("false").replace("[[phases]]", f"[[phases]]\n{setting}", 1)
        write_run(tmp_path, name, "dna", extra=extra)
        changed = next(run for run in read_runs(tmp_path)[0] if run.name == name)
        assert changes(changed, by_name["paper/dna"]) == [name]


def test_only_runs_of_the_group_count(runs):
    assert paper_run(runs, "dna", True).name == "paper/dna-centred"
    assert paper_run(runs, "adult", False) is None
    assert schedules_table([run for run in runs if run.name == "dna"]).rows == []
