"""Marks of what the published methods do not have, from run folders with known settings."""

from __future__ import annotations

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import method_of
from bihm_repro.runs.reader import read_runs


def test_a_run_with_a_sleep_term_in_some_phases_is_marked(tmp_path):
    for name, sleep in (("with", "sleep = 1.0\n"), ("without", "")):
        phases = f"[[phases]]\nsamples = 10\n[[phases]]\nsamples = 100\n{sleep}"
        write_run(tmp_path, name, "adult", evaluated=evaluation(-13.0), extra=phases)
    runs = {run.name: run for run in read_runs(tmp_path)[0]}
    assert {method_of(run) for run in runs.values()} == {"BiHM"}
    assert (marks_of(runs["with"]), marks_of(runs["without"])) == ("¤", "")
    assert "sleep term" in notes_for(runs.values())[0]


@pytest.mark.parametrize(
    "extra",
    [
        "[training]\ntotal_variation = 0.01\n",
        "[[phases]]\nsamples = 10\n[[phases]]\nsamples = 100\ntotal_variation = 0.01\n",
    ],
)
def test_a_run_with_a_total_variation_penalty_is_marked(tmp_path, extra):
    write_run(tmp_path, "with", "adult", evaluated=evaluation(-13.0), extra=extra)
    write_run(tmp_path, "without", "adult", evaluated=evaluation(-13.0), extra="")
    runs = {run.name: run for run in read_runs(tmp_path)[0]}
    assert (marks_of(runs["with"]), marks_of(runs["without"])) == ("°", "")
    assert "total variation" in notes_for(runs.values())[0]
