"""The paper's claims against run folders with known numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.report.claims import all_claims, claims_page
from bihm_repro.runs.reader import read_runs

ROOT = Path(__file__).parents[2]


def claims(folder):
    return {claim.text: claim for claim in all_claims(read_runs(folder)[0])}


def one(folder, start):
    found = [claim for text, claim in claims(folder).items() if text.startswith(start)]
    assert len(found) == 1
    return found[0]


def test_without_runs_every_claim_is_not_run(tmp_path):
    assert {claim.outcome for claim in all_claims([])} == {"not run"}
    assert "not run" in claims_page([])


@pytest.mark.parametrize(
    "value, outcome, numbers",
    [
        (-84.34, "holds", "84.34"),
        (-84.36, "does not hold", "84.36, 0.1 above"),
        (-83.0, "holds", "83.00, 1.3 below"),
    ],
)
def test_a_published_number_is_reached_or_not(tmp_path, value, outcome, numbers):
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(value))
    claim = one(tmp_path, "MNIST: -log p is 84.3")
    assert (claim.outcome, claim.numbers, claim.runs) == (outcome, numbers, ("mnist",))


@pytest.mark.parametrize(
    "extra, took", [({}, ""), ({"estimator_seconds": {"2 log Z": 281.6}}, " in 282 s")]
)
def test_the_seconds_of_2_log_z_are_shown_where_they_are_known(tmp_path, extra, took):
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(-84.0, **extra))
    assert one(tmp_path, "2 log Z: 10 million").numbers.endswith(f" samples{took}")


def test_bihm_against_rws(tmp_path):
    for name, ours, rws in (("adult", -13.5, -13.6), ("dna", -86.0, -85.0)):
        write_run(tmp_path, name, name, evaluated=evaluation(ours))
        write_run(tmp_path, f"rws-{name}", name, kind="rws", evaluated=evaluation(rws, star=False))
    claim = one(tmp_path, "UCI: BiHM is as good as RWS")
    assert claim.outcome == "holds in part"
    assert claim.numbers == "1 of 2: adult -0.10, dna +1.00"
    assert claim.runs == ("adult", "rws-adult", "dna", "rws-dna")


@pytest.mark.parametrize(
    "shallow, outcome",
    [(-90.0, "holds"), (-85.06, "holds"), (-85.04, "does not hold"), (-80.0, "does not hold")],
)
def test_depth_needs_runs_with_the_same_schedule(tmp_path, shallow, outcome):
    phases = "[[phases]]\nsamples = 10\n"
    write_run(
        tmp_path,
        "d3",
        "binarized_mnist",
        layers=(9, 8, 7),
        extra=phases,
        evaluated=evaluation(-85.0),
    )
    assert one(tmp_path, "MNIST: shallower").outcome == "not run"
    write_run(
        tmp_path,
        "d1",
        "binarized_mnist",
        layers=(9,),
        extra=phases.replace("10", "5"),
        evaluated=evaluation(-70.0),
    )
    assert one(tmp_path, "MNIST: shallower").outcome == "not run"
    write_run(
        tmp_path,
        "d1-same",
        "binarized_mnist",
        layers=(9,),
        extra=phases,
        evaluated=evaluation(shallow),
    )
    write_run(
        tmp_path,
        "without-8",
        "binarized_mnist",
        layers=(9, 7),
        extra=phases,
        evaluated=evaluation(-86.0),
    )
    claim = one(tmp_path, "MNIST: shallower")
    assert claim.outcome == outcome and claim.runs == ("d3", "d1-same")
    claim = one(tmp_path, "MNIST: leaving out")
    assert claim.outcome == "holds"
    assert "without-8 (without h2) 86.00" in claim.numbers


def test_layers_in_use(tmp_path):
    folder = write_run(
        tmp_path, "mnist", "binarized_mnist", layers=(9, 8, 7), evaluated=evaluation(-85.0)
    )
    assert one(tmp_path, "MNIST: all 12 layers").outcome == "not run"
    (folder / "log.csv").write_text(
        "updates,seconds,valid_log_p,active_units\n1,1,-99,1 0 0\n2,2,-90,5 2 0\n3,3,-90,\n"
    )
    claim = one(tmp_path, "MNIST: all 12 layers")
    assert claim.outcome == "holds in part" and claim.numbers == "2 of 3 layers; units: 5, 2, 0"


def test_few_samples_of_bihm_against_many_of_rws(tmp_path):
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(-85.0))
    write_run(
        tmp_path,
        "rws-mnist",
        "binarized_mnist",
        kind="rws",
        evaluated=evaluation(-87.0, star=False, counts=(1, 10, 10000)),
    )
    claim = one(tmp_path, "MNIST: BiHM with K = 10")
    assert claim.outcome == "holds"
    assert claim.numbers == "BiHM, K = 10: 86.00; RWS, K = 10,000: 87.00"


def test_many_samples_of_rws_may_be_those_of_its_effective_sample_size(tmp_path):
    more = {
        count: {"log_p": {"value": value, "standard_error": 0.05, "examples": 100}}
        for count, value in (("10000", -86.5), ("100000", -86.2))
    }
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(-85.0))
    write_run(
        tmp_path,
        "rws-mnist",
        "binarized_mnist",
        kind="rws",
        evaluated=evaluation(-87.0, star=False, more_samples=more),
    )
    claim = one(tmp_path, "MNIST: BiHM with K = 10")
    assert claim.outcome == "holds"
    assert claim.numbers == "BiHM, K = 10: 86.00; RWS, K = 10,000: 86.50"


def test_the_committed_page_is_up_to_date():
    text = (ROOT / "results" / "claims.md").read_text(encoding="utf-8")
    assert text == claims_page(read_runs(ROOT / "results")[0]), "run `bihm tables`"


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("updates, outcome", [(2000, "holds"), (900, "holds in part")])
def test_a_rival_with_few_updates_decides_nothing(tmp_path, updates, outcome, finished):
    write_run(tmp_path, "mnist", "binarized_mnist", evaluated=evaluation(-85.0), updates=2000)
    for kind in ("rws", "vae", "iwae"):
        write_run(
            tmp_path,
            f"{kind}-mnist",
            "binarized_mnist",
            kind=kind,
            updates=updates,
            finished=finished,
            evaluated=evaluation(-87.0, star=False),
        )
    claim = one(tmp_path, "MNIST: BiHM is better")
    assert (
        claim.outcome == outcome
        and f"RWS 87.00{'' if finished else '§'} ({updates:,} updates)" in claim.numbers
    )
