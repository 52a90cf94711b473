"""BiHM without and with a sleep term, from run folders with known numbers."""

from __future__ import annotations

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.methods import method_of
from bihm_repro.report.tables import build_tables
from bihm_repro.report.tables.sleep import sleep_pairs, sleep_table
from bihm_repro.runs.reader import read_runs


def add(results, sleep, numbers, *, dataset="adult", l1=0.01):
    """One run per seed; each number is (-log p, 2 log Z, ESS)."""
    for seed, (nll, log_z2, ess) in enumerate(numbers):
        write_run(
            results,
            f"{dataset}-{sleep:g}-{l1:g}-seed{seed}",
            dataset,
            seed=seed,
            evaluated=evaluation(-nll, log_z2=log_z2, ess=ess),
            extra=f"[training]\nl1 = {l1}\nsleep = {float(sleep)}\n",
        )


@pytest.fixture
def runs(tmp_path):
    add(tmp_path, 0, [(13.0, -0.5, 40.0), (13.2, -0.7, 50.0), (13.4, -0.7, 50.0)])
    add(tmp_path, 1, [(13.1, -0.4, 60.0), (13.1, -0.4, 60.0)])
    return read_runs(tmp_path)[0]


def test_means_are_over_the_seeds_that_both_have(runs):
    table = sleep_table(runs)
    row = dict(zip([column.key for column in table.columns], table.rows[0]))
    assert (row["set"].value, row["seeds"].value) == ("adult", 2)
    assert row["nll_p"].value == pytest.approx(13.1)
    assert row["nll_p_difference"].value == pytest.approx(0.0)
    assert row["minus_log_z2"].value == pytest.approx(0.6)
    assert row["minus_log_z2_sleep"].value == pytest.approx(0.4)
    assert row["ess_p_star_difference"].value == pytest.approx(15.0)
    assert row["ess_p_difference"].value == pytest.approx(1.5)


def test_a_change_counts_where_all_seeds_agree(runs):
    notes = sleep_table(runs).notes
    assert "-log p with the sleep term: seeds disagree on adult." in notes
    assert "-2 log Z with the sleep term: lower on adult." in notes
    assert "ESS p* % with the sleep term: higher on adult." in notes


def test_runs_that_differ_in_more_are_no_pair(tmp_path):
    add(tmp_path, 0, [(13.0, -0.5, 40.0)], l1=0.1)
    add(tmp_path, 1, [(13.1, -0.4, 60.0)])
    runs, _ = read_runs(tmp_path)
    assert sleep_pairs(runs) == []
    assert "No run with a sleep term" in sleep_table(runs).notes[0]


def test_a_run_with_a_sleep_term_does_not_represent_bihm(runs):
    assert {method_of(run) for run in runs} == {"BiHM", "BiHM-sleep"}
    only = [run for run in runs if method_of(run) == "BiHM-sleep"]
    uci = next(table for table in build_tables(only, ["uci"]) if table.name == "uci")
    assert next(row[1].value for row in uci.rows if row[0].value == "adult") is None
