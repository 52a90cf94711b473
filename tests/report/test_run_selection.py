"""Which runs are read, and which of them represents a method on a data set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_runs import cells, evaluation, log_text, write_run

from bihm_repro.report.methods import method_of
from bihm_repro.report.tables import uci as uci_tables
from bihm_repro.report.tables.runs import seeds_table
from bihm_repro.runs.reader import main_run, read_runs, seed_groups

ADULT = (100, 70, 50, 25)


ROOT = Path(__file__).parents[2]


def test_seeds_mean_and_spread(runs):
    row = cells(seeds_table(runs), "adult")
    assert row["seeds"] == "3"
    assert row["mean_nll_p"] == "13.62" and row["spread"] == "0.07"
    assert (row["lowest"], row["highest"], row["difference"]) == ("13.56", "13.70", "-0.16")
    assert row["runs"] == "adult, adult-seed1, adult-seed2"


def test_a_seed_counts_once(results):
    write_run(results, "adult-again", "adult", layers=ADULT, seed=1, evaluated=evaluation(-13.60))
    row = cells(seeds_table(read_runs(results)[0]), "adult")
    assert row["seeds"] == "3" and row["spread"] == "0.07"


def test_seed_groups_keep_other_recipes_apart(tmp_path):
    write_run(tmp_path, "dna", "dna", seed=0, extra="[training]\nl1 = 0.1\n")
    write_run(tmp_path, "dna-seed1", "dna", seed=1, extra="[training]\nl1 = 0.1\n")
    write_run(tmp_path, "dna-weak", "dna", seed=1, extra="[training]\nl1 = 0.001\n")
    write_run(
        tmp_path,
        "dna-seed2",
        "dna",
        seed=2,
        extra="[training]\nl1 = 0.1\n[evaluation]\nz_samples = 5\n",
    )
    groups = [[run.name for run in group] for group in seed_groups(read_runs(tmp_path)[0])]
    assert sorted(groups) == [["dna", "dna-seed1", "dna-seed2"], ["dna-weak"]]


def test_main_run_is_the_plainly_named_not_the_best_on_test(tmp_path):
    write_run(tmp_path, "dna", "dna", evaluated=evaluation(-90.0))
    write_run(tmp_path, "dna-other", "dna", seed=1, evaluated=evaluation(-80.0))
    found, _ = read_runs(tmp_path)
    assert main_run(found, "dna", "bihm").name == "dna"
    assert main_run(found, "dna", "rws") is None


def test_grouped_folders_are_read(tmp_path):
    write_run(tmp_path, "rws/adult", "adult", kind="rws", evaluated=evaluation(-14, star=False))
    found, _ = read_runs(tmp_path)
    assert [run.name for run in found] == ["rws/adult"]
    assert main_run(found, "adult", "rws").name == "rws/adult"


def test_log_of_a_run_in_training_is_read_without_its_unfinished_line(tmp_path):
    folder = write_run(tmp_path, "dna", "dna", epochs=3)
    (folder / "log.csv").write_text(log_text(3) + "0,4,20")
    assert list(read_runs(tmp_path)[0][0].log["updates"]) == [500, 1000, 1500]


@pytest.mark.parametrize(
    "file, content, expected",
    [
        ("evaluation.json", "{", "is not valid JSON"),
        ("evaluation.json", "[]", "must hold a JSON object"),
        ("evaluation.json", "{}", "field 'samples'"),
        (
            "evaluation.json",
            json.dumps({"samples": {"10": {"log_p": {"value": None}}}}),
            "samples.10.log_p",
        ),
        (
            "evaluation.json",
            json.dumps({**evaluation(-90.0), "split": "valid"}),
            "the report needs 'test'",
        ),
        ("log.csv", "epoch,seconds\n1,soon\n", "its column 'seconds' holds values that are no"),
        ("model.npz", "text", "is damaged or cut short"),
        ("status.json", '{"updates": "many"}', "field 'updates' is 'many': must be an integer"),
        ("recipe.toml", "dataset = ", "is not valid TOML"),
        ("recipe.toml", '[model]\nkind = "gan"', "bihm, rws, vae, iwae"),
    ],
)
def test_unreadable_folder_is_named_on_one_line(tmp_path, file, content, expected):
    write_run(tmp_path, "good", "dna", evaluated=evaluation(-90.0))
    (write_run(tmp_path, "bad", "dna") / file).write_text(content)
    found, complaints = read_runs(tmp_path)
    assert [run.name for run in found] == ["good"]
    assert len(complaints) == 1 and "\n" not in complaints[0]
    assert str(tmp_path / "bad") in complaints[0] and expected in complaints[0]


def test_folder_without_recipe_is_named_and_other_folders_passed_over(tmp_path):
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "log.csv").write_text("epoch\n")
    (tmp_path / "tables").mkdir()
    lost = tmp_path / "lost"
    assert read_runs(tmp_path) == (
        [],
        [
            f"left out: {lost / 'recipe.toml'}: is missing; train the run with: "
            f"bihm train RECIPE --out {lost}"
        ],
    )


def test_main_run_is_chosen_on_validation_never_on_test(tmp_path):
    """Neither is plainly named; the better on test has the first name, a later seed, fewer nats."""
    for name, valid, test in (("dna-a", -91.0, -80.0), ("dna-b", -90.0, -95.0)):
        folder = write_run(tmp_path, name, "dna", evaluated=evaluation(test))
        status = json.loads((folder / "status.json").read_text())
        (folder / "status.json").write_text(json.dumps({**status, "best_valid": valid}))
    found, _ = read_runs(tmp_path)
    assert main_run(found, "dna", "bihm").name == "dna-b"
    assert cells(uci_tables.uci_table(found), "dna")["nll_p"] == "95.00 ± 0.05"


@pytest.mark.parametrize(
    "kind, extra, expected",
    [
        ("bihm", "", "BiHM"),
        ("rws", "", "RWS"),
        ("bihm", 'p_layer = "darn"\n', "BiHM-DARN"),
        ("rws", 'p_layer = ["nade", "bernoulli"]\n', "RWS-NADE"),
        ("bihm", 'prior = "bernoulli"\n', "BiHM"),
    ],
)
def test_a_method_is_a_kind_with_its_layers(tmp_path, kind, extra, expected):
    write_run(tmp_path, "a", "dna", kind=kind, extra=extra)
    assert method_of(read_runs(tmp_path)[0][0]) == expected


def test_seeds_group_with_runs_made_before_a_setting_existed(tmp_path):
    write_run(tmp_path, "old", "dna", seed=0, extra="[training]\nl1 = 0.1\n")
    for seed, side in ((1, "both"), (2, "p")):
        extra = f'[training]\nl1 = 0.1\nl1_side = "{side}"\nsleep = 0.0\n'
        write_run(tmp_path, side, "dna", seed=seed, extra=extra)
    groups = seed_groups(read_runs(tmp_path)[0])
    assert sorted([run.name for run in group] for group in groups) == [["old", "both"], ["p"]]


def test_seeds_group_with_runs_made_before_a_setting_of_phases_existed(tmp_path):
    for seed, later in enumerate(("", "restart_dead = false\nabove = 0\n", "above = 1\n")):
        extra = f"[[phases]]\nsamples = 10\n{later}"
        write_run(tmp_path, f"run{seed}", "dna", seed=seed, extra=extra)
    groups = seed_groups(read_runs(tmp_path)[0])
    assert [[run.name for run in group] for group in groups] == [["run0", "run1"], ["run2"]]
