"""Tables from run folders with known numbers: exact cells, differences, marks, three formats."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_runs import evaluation, log_text, write_run

from bihm_repro.cli.main import main
from bihm_repro.errors import InputError
from bihm_repro.report.footnotes import marks_of
from bihm_repro.report.methods import method_of
from bihm_repro.report.tables import (
    README_BEGIN,
    README_END,
    build_tables,
    readme_block,
    replace_readme_block,
    write_tables,
)
from bihm_repro.report.tables import mnist as mnist_tables
from bihm_repro.report.tables import uci as uci_tables
from bihm_repro.report.tables.runs import seeds_table
from bihm_repro.report.tables.table import (
    Cell,
    Column,
    Table,
    difference,
    plain_text,
    to_csv,
    to_latex,
    to_markdown,
)
from bihm_repro.runs.reader import Estimate, main_run, read_runs, seed_groups

ADULT = (100, 70, 50, 25)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path):
    """Two finished sets, a surrogate split, a surrogate set, a paused run, seeds, RWS, MNIST."""
    folder = tmp_path / "results"
    write_run(folder, "adult", "adult", layers=ADULT, evaluated=evaluation(-13.56))
    write_run(folder, "adult-seed1", "adult", layers=ADULT, seed=1, evaluated=evaluation(-13.60))
    write_run(folder, "adult-seed2", "adult", layers=ADULT, seed=2, evaluated=evaluation(-13.70))
    write_run(folder, "dna", "dna", evaluated=evaluation(-90.0, ess=12.0), finished=False)
    write_run(folder, "web", "web", evaluated=evaluation(-28.0))
    write_run(folder, "rcv1_surrogate", "rcv1_surrogate", evaluated=evaluation(-50.0))
    write_run(folder, "nips", "nips", finished=False)
    write_run(
        folder,
        "adult-rws",
        "adult",
        kind="rws",
        layers=(100, 20, 5),
        evaluated=evaluation(-13.9, star=False, ess=1.0),
    )
    write_run(
        folder,
        "mnist",
        "binarized_mnist",
        layers=(300, 10),
        finished=False,
        updates=75000,
        evaluated=evaluation(-86.5, ess=7.0),
    )
    write_run(
        folder,
        "mnist-vae",
        "binarized_mnist",
        kind="vae",
        layers=(100,),
        evaluated=evaluation(-88.7, star=False),
    )
    return folder


@pytest.fixture
def runs(results):
    """The same, read."""
    found, complaints = read_runs(results)
    assert complaints == []
    return found


def cells(table: Table, first: str) -> dict[str, str]:
    """The texts of the row that starts with ``first``, by column key."""
    row = next(row for row in table.rows if row[0].text == first)
    return {column.key: cell.text for column, cell in zip(table.columns, row)}


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


def test_resampled_pixels_have_their_own_row(tmp_path):
    write_run(tmp_path, "mnist-dynamic", "mnist", evaluated=evaluation(-83.0))
    table = mnist_tables.mnist_table(read_runs(tmp_path)[0])
    assert cells(table, "BiHM, resampled pixels")["difference_estimate"] == "+0.1"
    assert cells(table, "BiHM (12 latent layers)")["estimate"] == "—"


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


def test_csv_holds_the_numbers_behind_the_text(runs):
    rows = {
        row["set"]: row for row in csv.DictReader(io.StringIO(to_csv(uci_tables.uci_table(runs))))
    }
    assert float(rows["adult"]["nll_p"]) == 13.56
    assert float(rows["adult"]["nll_p_se"]) == 0.05
    assert float(rows["adult"]["difference_p"]) == pytest.approx(13.56 - 13.78, abs=1e-9)
    assert rows["nips"]["nll_p"] == "" and rows["nips"]["paper_nll_p"] == "272.66"
    assert rows["dna"]["marks"] == "§" and rows["adult"]["marks"] == ""


def test_latex_is_well_formed(runs):
    for table in build_tables(runs):
        text = to_latex(table)
        assert text.count(r"\begin{") == text.count(r"\end{") == 2
        body = text.split(r"\hline")[2]
        lines = [line for line in body.strip().splitlines() if line]
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(table.columns) - 1
            assert line.endswith(r" \\")
        plain = re.sub(r"\\[#$%&_{}]", "", text)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        assert "%" not in plain and "#" not in plain
        outside = re.sub(r"\$[^$]*\$", "", plain)
        assert "_" not in outside and "^" not in outside and not set("±—†‡§¶‖◊") & set(text)


def test_markdown_is_aligned(runs):
    for table in [*build_tables(runs), *build_tables([])]:
        lines = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
        assert len({len(line) for line in lines}) == (1 if table.rows else 0)
        assert not lines or re.fullmatch(r"\|( -+:? \|)+", lines[1])


def test_log_of_a_run_in_training_is_read_without_its_unfinished_line(tmp_path):
    folder = write_run(tmp_path, "dna", "dna", epochs=3)
    (folder / "log.csv").write_text(log_text(3) + "0,4,20")
    assert list(read_runs(tmp_path)[0][0].log["updates"]) == [500, 1000, 1500]


def test_cells_round_without_a_negative_zero():
    assert Cell(-0.001).text == "0.00"
    assert Cell(0.004, signed=True).text == "0.00"
    assert Cell(0.25, 0.125, 1).text == "0.2 ± 0.1"
    assert difference(Estimate(1.0), None).text == "—"
    assert "a\\|b" in to_markdown(Table("t", "T", [Column("a", "A")], [[Cell("a|b")]]))
    assert to_csv(Table("t", "T", [Column("a", "A")], [[Cell(0.1 + 0.2)]])) == "a,marks\n0.3,\n"


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


def test_all_tables_without_any_run(tmp_path):
    for table in build_tables([]):
        assert to_markdown(table) and to_csv(table) and to_latex(table)


def test_written_in_three_formats(runs, tmp_path):
    paths = write_tables(build_tables(runs, ["ess"]), tmp_path / "out")
    assert [path.name for path in paths] == ["ess.md", "ess.csv", "ess.tex"]
    assert all(path.stat().st_size for path in paths)


def test_unknown_group_is_refused():
    with pytest.raises(InputError, match="'moon'.*uci, mnist, ess, contest, runs, all"):
        build_tables([], ["moon"])


def test_command_prints_writes_and_updates_the_readme(results, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n{README_BEGIN}\nold\n{README_END}\nend\n")
    (write_run(results, "broken", "dna") / "recipe.toml").write_text("=")
    status = main(["tables", "uci", "--results", str(results), "--readme", str(readme)])
    printed = capsys.readouterr()
    assert status == 0 and "13.56 ± 0.05" in printed.out
    assert "broken" in printed.err
    assert (results / "tables" / "uci.tex").exists()
    text = readme.read_text()
    assert text.startswith(f"# Title\n{README_BEGIN}\n### UCI") and "old" not in text
    assert text.endswith(f"{README_END}\nend\n")
    assert replace_readme_block(text, readme_block(read_runs(results)[0])) == text


def test_command_refuses_bad_input_on_one_line(tmp_path, capsys):
    assert main(["tables", "--results", str(tmp_path / "none")]) == 2
    assert main(["tables", "moon", "--results", str(tmp_path)]) == 2
    (tmp_path / "README.md").write_text("no markers")
    assert (
        main(["tables", "--results", str(tmp_path), "--readme", str(tmp_path / "README.md")]) == 2
    )
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("bihm: error: ")]) == 3


def test_readme_is_in_step_with_the_committed_runs():
    readme = ROOT / "README.md"
    runs, complaints = read_runs(ROOT / "results")
    text = readme.read_text(encoding="utf-8")
    assert complaints == []
    assert replace_readme_block(text, readme_block(runs)) == text, (
        "run `bihm tables --readme README.md`"
    )


def test_report_needs_no_engine(results):
    code = (
        "import sys; from bihm_repro.report import tables; from bihm_repro.runs import reader; "
        f"tables.build_tables(reader.read_runs({str(results)!r})[0]); "
        "print(sorted({'theano', 'pytensor', 'jax'} & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "[]"


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


HOSTILE = "a|b\n<script>`x`\x1b[31m\u202eé[z](javascript:1)"


def test_hostile_names_are_one_plain_line_in_every_format():
    table = Table("t", HOSTILE, [Column("a", "A", left=True)], [[Cell(HOSTILE)]], [HOSTILE])
    for text in (to_markdown(table), to_csv(table), to_latex(table)):
        assert not set("\x1b\u202e\r") & set(text)
    row = to_markdown(table).splitlines()[4]
    assert row.count("|") - row.count("\\|") == 2
    assert r"\<script\>\`x\`" in row and r"\[z\](javascript" in row
    assert to_csv(table).count("\n") == 2
    assert plain_text("a\x00b\u2028c") == "a b c"


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


def test_other_depths_are_listed_with_their_active_units(results):
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
