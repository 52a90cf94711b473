"""Tables from run folders with known numbers: exact cells, differences, marks, three formats."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_runs import write_run

from bihm_repro.cli.main import main
from bihm_repro.errors import InputError
from bihm_repro.report.tables import (
    README_BEGIN,
    README_END,
    build_tables,
    readme_block,
    replace_readme_block,
    write_tables,
)
from bihm_repro.report.tables import uci as uci_tables
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
from bihm_repro.runs.reader import Estimate, read_runs

ADULT = (100, 70, 50, 25)
ROOT = Path(__file__).parents[2]


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


def test_cells_round_without_a_negative_zero():
    assert Cell(-0.001).text == "0.00"
    assert Cell(0.004, signed=True).text == "0.00"
    assert Cell(0.25, 0.125, 1).text == "0.2 ± 0.1"
    assert difference(Estimate(1.0), None).text == "—"
    assert "a\\|b" in to_markdown(Table("t", "T", [Column("a", "A")], [[Cell("a|b")]]))
    assert to_csv(Table("t", "T", [Column("a", "A")], [[Cell(0.1 + 0.2)]])) == "a,marks\n0.3,\n"


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
