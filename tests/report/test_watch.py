"""The page on a run in progress."""

from __future__ import annotations

import re

from synthetic_runs import write_run

from bihm_repro.cli.main import main
from bihm_repro.report.pages.watch import build_watch


def test_a_run_in_progress_is_shown_and_loaded_again(tmp_path):
    folder = write_run(tmp_path, "dna", "dna", finished=False, epochs=20)
    page, ended = build_watch([folder], 7)
    assert not ended and '<meta http-equiv="refresh" content="7">' in page
    for text in ("in phase 2 of 2", "2,000", "-10.00", "data:image/png"):
        assert text in page
    assert re.search(r"updates per second</td><td>16\.7<", page)


def test_a_finished_run_is_not_loaded_again(tmp_path):
    page, ended = build_watch([write_run(tmp_path, "dna", "dna", epochs=2)], 7)
    assert ended and "refresh" not in page


def test_a_run_that_has_not_begun_is_named(tmp_path):
    (tmp_path / "new").mkdir()
    page, ended = build_watch([tmp_path / "new", write_run(tmp_path, "dna", "dna")], 7)
    assert not ended and "recipe.toml" in page and "No epoch yet." in page


def test_command_writes_the_page_once_and_ends_with_the_training(tmp_path, capsys):
    folder = write_run(tmp_path, "dna", "dna", epochs=2)
    assert main(["watch", str(folder)]) == 0
    assert (folder / "watch.html").read_text().startswith("<!DOCTYPE html>")
    folder = write_run(tmp_path, "nips", "nips", finished=False)
    assert main(["watch", str(folder), "--once", "--out", str(tmp_path / "page.html")]) == 0
    assert "nips" in (tmp_path / "page.html").read_text()
    assert main(["watch", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("bihm: error") == 1
