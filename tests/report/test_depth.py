"""Models with fewer layers, and with one left out, from run folders with known numbers."""

from __future__ import annotations

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.tables import build_tables
from bihm_repro.report.tables.depth import depth_runs, depth_table, left_out
from bihm_repro.runs.reader import read_runs

SHORT = "[[phases]]\nsamples = 10\n"
# The same schedule, written later and evaluated otherwise.
LATER = SHORT + "restart_dead = false\n[evaluation]\nz_samples = 7\n"


def add(folder, name, layers, nll, extra=SHORT, **settings):
    evaluated = evaluation(-nll, active_units=[size - 1 for size in layers])
    write_run(
        folder, name, "binarized_mnist", layers=layers, evaluated=evaluated, extra=extra, **settings
    )


@pytest.fixture
def runs(tmp_path):
    add(tmp_path, "main", (9, 8, 8, 6), 80.0, extra="[[phases]]\nsamples = 100\n")
    add(tmp_path, "all", (9, 8, 8, 6), 90.0, updates=16000)
    add(tmp_path, "two", (9, 8), 92.5)
    add(tmp_path, "one", (9,), 95.0)
    add(tmp_path, "without-last", (9, 8, 8), 89.75)
    add(tmp_path, "without-second", (9, 8, 6), 90.25, extra=LATER)
    add(tmp_path, "another", (9, 8, 7), 91.0)
    return read_runs(tmp_path)[0]


@pytest.mark.parametrize(
    ("layers", "number"),
    [((8, 8, 6), 1), ((9, 8, 6), 2), ((9, 8, 8), 4), ((9, 6), None), ((9, 8, 7), None)],
)
def test_the_layer_that_was_left_out(layers, number):
    assert left_out(layers, (9, 8, 8, 6)) == number


def test_runs_are_compared_with_the_deepest_of_their_schedule(runs):
    deepest, shallower, without = depth_runs(runs)
    assert deepest.name == "all"
    assert [run.name for run in shallower] == ["one", "two"]
    assert [run.name for run in without] == ["without-second", "without-last"]
    assert depth_runs([run for run in runs if run.name in ("main", "all")]) == (None, [], [])


def test_the_table_has_differences_and_active_units(runs):
    table = depth_table(runs)
    keys = [column.key for column in table.columns]
    rows = {row[-1].value: dict(zip(keys, (cell.text for cell in row))) for row in table.rows}
    assert list(rows) == ["all", "two", "one", "without-second", "without-last"]
    assert (rows["all"]["difference"], rows["all"]["left_out"]) == ("—", "—")
    assert rows["all"]["updates"] == "16,000"
    assert (rows["two"]["difference"], rows["two"]["active_units"]) == ("+2.50", "8, 7")
    assert rows["without-second"]["left_out"] == "2 (8)"
    assert (rows["without-last"]["difference"], rows["without-last"]["layers"]) == ("-0.25", "3")


def test_the_table_is_among_those_of_mnist_and_its_runs_stand_in_no_other(runs):
    assert depth_table([]).notes == ["No evaluated MNIST runs that differ in their layers alone."]
    assert "depth" in [table.name for table in build_tables(runs, ["mnist"])]
    [others] = [table for table in build_tables(runs, ["mnist"]) if table.name == "mnist-others"]
    assert [row[0].value for row in others.rows] == ["another", "main"]
