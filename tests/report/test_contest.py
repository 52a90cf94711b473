"""The contest of methods and architectures, from run folders with known numbers."""

from __future__ import annotations

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.claims import all_claims
from bihm_repro.report.paper import UCI_BY_NAME
from bihm_repro.report.tables import build_tables
from bihm_repro.report.tables.contest import contest_entries, contest_summary, contest_table
from bihm_repro.runs.reader import read_runs


def add(results, method, architecture, values, *, l1=0.01, rate=1e-2, valid=-10.0, dataset="adult"):
    """One run per seed; a value of None leaves the run without an evaluation."""
    entry = UCI_BY_NAME[dataset]
    for seed, value in enumerate(values):
        write_run(
            results,
            f"contest/{dataset}-{method}-{architecture}-{l1:g}-{rate:g}-seed{seed}",
            dataset,
            kind=method,
            layers=entry.bihm_layers if architecture == "deep" else entry.rws_layers,
            seed=seed,
            best_valid=valid,
            evaluated=None if value is None else evaluation(-value, star=method == "bihm"),
            extra=f"[training]\nl1 = {l1}\n[[phases]]\nlearning_rate = {rate}\n",
        )


@pytest.fixture
def results(tmp_path):
    add(tmp_path, "bihm", "deep", [13.0, 13.2, 13.4])
    add(tmp_path, "rws", "deep", [14.0, 14.1, 14.2])
    add(tmp_path, "bihm", "shallow", [13.1, 13.2, 13.3])
    add(tmp_path, "rws", "shallow", [12.0, 12.1, 12.2])
    return tmp_path


def rows(results):
    table = contest_table(read_runs(results)[0])
    keys = [column.key for column in table.columns]
    return {row[1].value: dict(zip(keys, row)) for row in table.rows}


def test_mean_and_spread_over_seeds(results):
    row = rows(results)["deep"]
    assert row["bihm_nll_p"].text == "13.20 ± 0.20"
    assert row["rws_nll_p"].text == "14.10 ± 0.10"
    assert row["difference"].text == "-0.90"
    assert row["bihm_seeds"].value == 3
    assert row["sizes"].value == "100, 70, 50, 25"


def test_validation_chooses_the_penalty_and_not_the_test_set(results):
    add(results, "bihm", "deep", [1.0], l1=0.1, valid=-11.0)
    add(results, "bihm", "deep", [15.0, 15.0], l1=0.001, valid=-9.0)
    entry = contest_entries(read_runs(results)[0])["adult", "deep", "BiHM"]
    assert (entry.l1, entry.mean, entry.trials, len(entry.runs)) == (0.001, 15.0, 3, 2)


def test_validation_chooses_the_rate_as_well(results):
    add(results, "rws", "deep", [1.0], rate=5e-3, valid=-11.0)
    add(results, "rws", "deep", [15.0], rate=2e-2, valid=-9.0)
    row = rows(results)["deep"]
    assert (row["rws_rate"].value, row["rws_nll_p"].value) == ("0.02", 15.0)
    assert row["bihm_rate"].value == "0.01"
    assert "from the same 1 or 3 trials" in contest_table(read_runs(results)[0]).notes[0]


def test_a_chosen_penalty_without_an_evaluation_gives_no_entry(results):
    add(results, "bihm", "deep", [None], l1=0.1, valid=-9.0)
    assert ("adult", "deep", "BiHM") not in contest_entries(read_runs(results)[0])


def test_differences_within_two_standard_errors_count_as_none(results):
    assert contest_summary(read_runs(results)[0]) == [
        "BiHM against RWS, deep layers: better on adult.",
        "BiHM against RWS, shallow layers: worse on adult.",
        "BiHM, deep against shallow layers: no difference on adult.",
        "RWS, deep against shallow layers: worse on adult.",
    ]


@pytest.mark.parametrize("value, outcome", [(13.05, "no difference"), (13.2, "better")])
def test_single_seeds_are_compared_by_their_errors_over_the_rows(tmp_path, value, outcome):
    add(tmp_path, "bihm", "deep", [13.0])
    add(tmp_path, "rws", "deep", [value])  # errors of 0.05 each
    assert contest_summary(read_runs(tmp_path)[0]) == [
        f"BiHM against RWS, deep layers: {outcome} on adult."
    ]


def test_runs_of_the_contest_stand_in_where_a_set_has_no_run_of_its_own(results):
    def nll_p():
        runs, _ = read_runs(results)
        tables = {table.name: table for table in build_tables(runs)}
        assert tables["seeds"].rows == []
        assert not any("contest" in cell.text for row in tables["runs"].rows for cell in row)
        return next(row[1].value for row in tables["uci"].rows if row[0].value == "adult")

    assert nll_p() == 13.0
    write_run(results, "adult", "adult", evaluated=evaluation(-13.7))
    assert nll_p() == 13.7


def test_claims_count_differences_as_the_table_does(results):
    claims = {claim.text: claim for claim in all_claims(read_runs(results)[0])}
    better = claims["With one schedule for both, BiHM is better than RWS (UCI)"]
    assert (better.outcome, better.numbers) == ("holds", "1 of 1: adult -0.90")
    deeper = claims["With one schedule for both, BiHM gains from deeper models (UCI)"]
    assert (deeper.outcome, deeper.numbers) == ("does not hold", "0 of 1: adult +0.00")


def test_claims_choose_the_layers_on_validation_and_not_on_test(tmp_path):
    for method, kind, value, valid in (
        ("bihm", "deep", 13.0, -10.0), ("bihm", "shallow", 15.0, -9.0),
        ("rws", "deep", 14.0, -9.0), ("rws", "shallow", 12.0, -10.0),
    ):  # fmt: skip
        add(tmp_path, method, kind, [value], valid=valid)
    claims = {claim.text: claim for claim in all_claims(read_runs(tmp_path)[0])}
    better = claims["With one schedule for both, BiHM is better than RWS (UCI)"]
    assert better.numbers == "0 of 1: adult +1.00"


def test_without_runs():
    assert contest_table([]).rows == []
    assert contest_summary([]) == []
