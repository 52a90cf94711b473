"""The UCI tables: our numbers, the paper's, differences and marks."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_runs import cells, evaluation, write_run

from bihm_repro.report.footnotes import marks_of
from bihm_repro.report.tables import uci as uci_tables
from bihm_repro.report.tables.table import to_markdown
from bihm_repro.runs.reader import read_runs

ADULT = (100, 70, 50, 25)


ROOT = Path(__file__).parents[2]


def test_uci_row_shows_ours_the_papers_and_the_difference(runs):
    assert cells(uci_tables.uci_table(runs), "adult") == {
        "set": "adult",
        "nll_p": "13.56 ± 0.05",
        "paper_nll_p": "13.78",
        "difference_p": "-0.22",
        "nll_p_star": "13.61 ± 0.05",
        "paper_nll_p_star": "13.82",
        "difference_p_star": "-0.21",
        "minus_log_z2": "0.25 ± 0.01",
        "paper_minus_log_z2": "0.20",
        "ess": "81.0 ± 0.2",
        "paper_ess": "81.5",
    }


def test_missing_run_is_a_dash_beside_the_papers_number(runs):
    row = cells(uci_tables.uci_table(runs), "nips")
    assert row["nll_p"] == row["ess"] == row["difference_p"] == "—"
    assert row["paper_nll_p"] == "272.66"


def test_marks_and_their_footnotes(runs):
    table = uci_tables.uci_table(runs)
    assert cells(table, "web")["nll_p"] == "28.00 ± 0.05†"
    assert cells(table, "dna")["nll_p"] == "90.00 ± 0.05§"
    assert cells(table, "dna")["difference_p"] == "+3.51"
    assert cells(table, "rcv1")["nll_p"] == "50.00 ± 0.05‡"
    assert cells(table, "rcv1")["difference_p"] == "—"
    text = to_markdown(table)
    for part in ("† web", "‡ rcv1_surrogate", "§ training not finished"):
        assert text.count(part) == 1


def test_no_footnote_without_its_mark(results):
    found, _ = read_runs(results)
    text = to_markdown(uci_tables.uci_table([run for run in found if run.name == "adult"]))
    assert not set("†‡§¶‖◊") & set(text)


def test_fewer_samples_are_marked(tmp_path):
    write_run(tmp_path, "dna", "dna", evaluated=evaluation(-88.0, counts=(1, 10, 100)))
    table = uci_tables.uci_table(read_runs(tmp_path)[0])
    assert cells(table, "dna")["nll_p"] == "88.00 ± 0.05¶"


@pytest.mark.parametrize("kind", ["nade", "rbm"])
def test_methods_without_samples_of_latents_carry_no_mark_for_few(tmp_path, kind):
    few = evaluation(-88.0, counts=(1,), star=False)
    write_run(tmp_path, f"{kind}-dna", "dna", kind=kind, layers=(5,), evaluated=few)
    table = uci_tables.models_table(read_runs(tmp_path)[0])
    assert cells(table, f"{kind.upper()}, ours")["dna"] == "88.00"


@pytest.mark.parametrize(
    "dataset, exactness, mark",
    [
        ("web", None, "†"),
        ("web", "surrogate", "†"),
        ("web", "exact", ""),
        ("binarized_mnist", "not the published draw", "‖"),
        ("binarized_mnist", "exact", ""),
    ],
)
def test_marks_follow_the_exactness_of_the_data(tmp_path, dataset, exactness, mark):
    extra = {} if exactness is None else {"data_exactness": exactness}
    write_run(tmp_path, "a", dataset, evaluated=evaluation(-28.0, **extra))
    assert marks_of(read_runs(tmp_path)[0][0]) == mark


def test_a_part_of_the_test_split_is_marked(tmp_path):
    write_run(tmp_path, "dna", "dna", evaluated=evaluation(-88.0, n_examples=1185))
    write_run(tmp_path, "nips", "nips", evaluated=evaluation(-88.0, n_examples=1240))
    assert [marks_of(run) for run in read_runs(tmp_path)[0]] == ["◊", ""]


def test_a_number_from_before_the_end_of_training_is_marked(tmp_path):
    write_run(tmp_path, "dna", "dna", evaluated=evaluation(-88.0, finished=False))
    assert marks_of(read_runs(tmp_path)[0][0]) == "§"


def test_a_run_cut_by_its_budget_is_not_finished(tmp_path):
    folder = write_run(tmp_path, "dna", "dna", evaluated=evaluation(-88.0))
    (folder / "status.json").write_text('{"finished": true, "cut_by_budget": true}')
    assert marks_of(read_runs(tmp_path)[0][0]) == "§"


def test_summary_counts_only_comparable_sets(runs):
    assert uci_tables.summary_line(runs) == (
        "At the paper's -log p or better on 2 of 3 sets (adult, web); behind on dna."
    )


def test_rws_beside_the_papers_row_and_our_bihm(runs):
    assert cells(uci_tables.rws_table(runs), "adult") == {
        "set": "adult",
        "rws_nll_p": "13.90 ± 0.05",
        "paper_rws_sbn": "13.65",
        "difference": "+0.25",
        "rws_ess_p": "0.10 ± 0.04",
        "bihm_nll_p": "13.56 ± 0.05",
        "bihm_ess_p": "8.10 ± 0.04",
        "bihm_ess_p_star": "81.00 ± 0.20",
    }


def test_details_say_where_our_layers_differ(runs):
    table = uci_tables.details_table(runs)
    assert cells(table, "adult")["layers"] == "the same"
    assert cells(table, "web")["layers"] == "3, 2"
    assert cells(table, "web")["paper_layers"] == "650, 580, 70, 30, 10"
    assert cells(table, "adult")["z_samples"] == "1,000,000"


def test_our_rows_follow_the_papers_in_the_table_of_models(results):
    write_run(
        results,
        "rws-nade-adult",
        "adult",
        kind="rws",
        extra='p_layer = "nade"\n',
        evaluated=evaluation(-13.1, star=False),
    )
    write_run(
        results, "bihm-darn-adult", "adult", extra='p_layer = "darn"\n', evaluated=evaluation(-13.0)
    )
    table = uci_tables.models_table(read_runs(results)[0])
    names = [row[0].text for row in table.rows]
    assert names == [
        "NADE",
        "EoNADE",
        "DARN",
        "RWS - NADE",
        "RWS-NADE, ours",
        "RBM",
        "RWS - SBN",
        "RWS, ours",
        "BiHM -log p",
        "BiHM -log p, ours",
        "BiHM -log p*",
        "BiHM -log p*, ours",
        "BiHM-DARN, ours",
    ]
    assert cells(table, "RWS-NADE, ours")["adult"] == "13.10"
    assert cells(table, "BiHM -log p, ours")["adult"] == "13.56"
    assert cells(table, "BiHM-DARN, ours")["dna"] == "—"
