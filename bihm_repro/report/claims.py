"""The claims of the paper, each with the runs that test it, their numbers and the outcome.

Everything comes from run folders. A claim that no run tests says "not run".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bihm_repro.report import paper
from bihm_repro.report.figures.curves import learning_curves
from bihm_repro.report.figures.samples import FACES, model_run
from bihm_repro.report.footnotes import comparable, marks_of, notes_for
from bihm_repro.report.methods import MNIST, evaluation_of, negative_log_likelihood, nll_value
from bihm_repro.report.tables.contest import compare, contest_entries
from bihm_repro.report.tables.depth import depth_runs, left_out
from bihm_repro.report.tables.mnist import RESAMPLED, mnist_run
from bihm_repro.report.tables.runs import active_units
from bihm_repro.report.tables.table import Cell, Column, Table, to_markdown
from bihm_repro.report.tables.uci import uci_run
from bihm_repro.runs.reader import Run

__all__ = ["Claim", "claims_page", "claims_table", "all_claims"]

HOLDS, FAILS, PARTLY, NOT_RUN = "holds", "does not hold", "holds in part", "not run"


@dataclass(frozen=True)
class Claim:
    """What the paper says, the outcome here, the numbers behind it and their runs."""

    text: str
    outcome: str = NOT_RUN
    numbers: str = ""
    runs: tuple[str, ...] = ()


def _shown(run: Run, value: float, decimals: int = 2) -> str:
    return f"{value:.{decimals}f}{marks_of(run)}"


def _reached(
    text: str, run: Run | None, quoted: float, quantity: str = "log_p", samples: int | None = None
) -> Claim:
    """A claim of the form "-log p is ``quoted``": holds if ours, rounded alike, is not above."""
    estimate = negative_log_likelihood(run, quantity, samples)
    if run is None or estimate is None:
        return Claim(text)
    gap = round(estimate.value, 1) - quoted
    outcome = HOLDS if gap < 0.05 else FAILS
    numbers = f"{_shown(run, estimate.value)}, {abs(gap):.1f} {'above' if gap > 0 else 'below'}"
    return Claim(text, outcome, numbers if abs(gap) >= 0.05 else numbers.split(",")[0], (run.name,))


def _mnist_numbers(runs: Sequence[Run]) -> list[Claim]:
    bihm, resampled = mnist_run(runs), mnist_run(runs, "BiHM", RESAMPLED)
    return [
        _reached("MNIST: -log p is 84.3 with 12 layers", bihm, 84.3),
        _reached("MNIST: -log p* is 84.6", bihm, 84.6, "log_p_star"),
        _reached("MNIST: the bound on -log p (K = 1) is 89.2", bihm, 89.2, samples=1),
        _reached("MNIST with resampled pixels: -log p is 82.9", resampled, 82.9),
    ]


def _comparable_runs(runs: Sequence[Run]) -> list[tuple[paper.UciSet, Run]]:
    """The UCI sets that have a run on the same data as the paper's."""
    found = [(entry, uci_run(runs, entry)) for entry in paper.UCI]
    return [(entry, run) for entry, run in found if run is not None and comparable(run)]


def _uci_numbers(runs: Sequence[Run]) -> Claim:
    text = "UCI: BiHM reaches the -log p of Table 1"
    found = _comparable_runs(runs)
    gaps = {entry.name: round(nll_value(run) - entry.nll_p, 2) for entry, run in found}
    return _counted(text, {name: gap <= 0 for name, gap in gaps.items()},
                    {name: f"{gap:+.2f}" for name, gap in gaps.items()},
                    tuple(run.name for _, run in found))  # fmt: skip


def _counted(
    text: str, outcomes: dict[str, bool], numbers: dict[str, str], runs: tuple[str, ...]
) -> Claim:
    """A claim over several data sets: how many agree, and the number of each."""
    if not outcomes:
        return Claim(text)
    agree = sum(outcomes.values())
    outcome = HOLDS if agree == len(outcomes) else PARTLY if agree else FAILS
    parts = ", ".join(f"{name} {numbers[name]}" for name in outcomes)
    return Claim(text, outcome, f"{agree} of {len(outcomes)}: {parts}", runs)


def _against_rws(runs: Sequence[Run]) -> list[Claim]:
    text = "UCI: BiHM is as good as RWS or better, with deeper models"
    pairs = [
        (entry, bihm, rws)
        for entry in paper.UCI
        if (bihm := uci_run(runs, entry)) and (rws := uci_run(runs, entry, "RWS"))
    ]
    gaps = {entry.name: round(nll_value(bihm) - nll_value(rws), 2) for entry, bihm, rws in pairs}
    uci = _counted(text, {name: gap <= 0 for name, gap in gaps.items()},
                   {name: f"{gap:+.2f}" for name, gap in gaps.items()},
                   tuple(run.name for _, *both in pairs for run in both))  # fmt: skip
    text = "MNIST: BiHM is better than RWS, VAE and IWAE"
    bihm = mnist_run(runs)
    others = {name: run for name in ("RWS", "VAE", "IWAE") if (run := mnist_run(runs, name))}
    if bihm is None or not others:
        return [uci, Claim(text)]
    better = {name: nll_value(bihm) <= nll_value(run) for name, run in others.items()}
    numbers = {name: _trained(run) for name, run in others.items()}
    claim = _counted(text, better, numbers, tuple(run.name for run in (bihm, *others.values())))
    fair = len(others) == 3 and all(_as_long(run, bihm) for run in others.values())
    outcome = PARTLY if claim.outcome == HOLDS and not fair else claim.outcome
    shown = f"BiHM {_trained(bihm)}; better than {claim.numbers}"
    return [uci, Claim(text, outcome, shown, claim.runs)]


def _trained(run: Run) -> str:
    """-log p and the number of updates behind it."""
    updates = "" if run.updates is None else f" ({run.updates:,} updates)"
    return _shown(run, nll_value(run)) + updates


def _as_long(run: Run, other: Run) -> bool:
    """Whether a run had at least half the updates of another.

    A schedule that ended says nothing: it may have been a short one.
    """
    return 2 * (run.updates or 0) >= (other.updates or 0)


def _depth(runs: Sequence[Run]) -> list[Claim]:
    texts = ("MNIST: shallower models are worse", "MNIST: leaving out a layer makes it worse")
    deepest, *compared = depth_runs(runs)
    if deepest is None:
        return [Claim(text) for text in texts]
    claims = []
    for text, chosen in zip(texts, compared):
        if not chosen:
            claims.append(Claim(text))
            continue
        # To one decimal, as the paper gives these numbers: a smaller difference is none.
        worse = {run.name: round(nll_value(run) - nll_value(deepest), 1) > 0 for run in chosen}
        numbers = {
            run.name: f"({_layers_of(run, deepest)}) {_shown(run, nll_value(run))}"
            for run in chosen
        }
        claim = _counted(text, worse, numbers, tuple(run.name for run in (deepest, *chosen)))
        full = f"all {len(deepest.layers)} layers {_shown(deepest, nll_value(deepest))}; worse in "
        claims.append(Claim(text, claim.outcome, full + claim.numbers, claim.runs))
    return claims


def _layers_of(run: Run, deepest: Run) -> str:
    missing = left_out(run.layers, deepest.layers)
    if missing is None:
        return f"{len(run.layers)} layers"
    return f"without h{missing}"


def _layers_used(runs: Sequence[Run]) -> Claim:
    text, run = "MNIST: all 12 layers are used", mnist_run(runs)
    if run is None:
        return Claim(text)
    counts = active_units(run)
    if not counts:
        return Claim(text, NOT_RUN, "active units were not counted", (run.name,))
    used = sum(count > 0 for count in counts)
    outcome = HOLDS if used == len(counts) else PARTLY
    active = ", ".join(map(str, counts))
    return Claim(text, outcome, f"{used} of {len(counts)} layers; units: {active}", (run.name,))


def _over_k(runs: Sequence[Run]) -> Claim:
    text = "MNIST: BiHM with K = 10 is above RWS with K = 10,000"
    bihm, rws = mnist_run(runs), mnist_run(runs, "RWS")
    if bihm is None or rws is None or 10 not in bihm.sample_counts:
        return Claim(text)
    most = max((k for k in rws.all_sample_counts if k <= 10_000), default=0)
    if not most:
        return Claim(text)
    few, many = nll_value(bihm, samples=10), nll_value(rws, samples=most)
    fair = most >= 10_000 and _as_long(rws, bihm)
    outcome = FAILS if few > many else HOLDS if fair else PARTLY
    numbers = f"BiHM, K = 10: {_shown(bihm, few)}; RWS, K = {most:,}: {_shown(rws, many)}"
    return Claim(text, outcome, numbers, (bihm.name, rws.name))


def _ess(runs: Sequence[Run]) -> Claim:
    text = "MNIST: ESS of 11.9% for p*, 1.2% for p; RWS 0.10%, VAE 0.07% (K = 100,000)"
    rows = [(row, mnist_run(runs, row.method)) for row in paper.MNIST_ESS]
    found = {
        f"{row.method} {row.target.replace('_star', '*')}": (run, ess.value)
        for row, run in rows
        if run is not None and (ess := run.ess(row.target)) is not None
    }
    if "BiHM p*" not in found or len(found) < 3:
        return Claim(text)
    values = [value for _, value in found.values()]
    outcome = HOLDS if values == sorted(values, reverse=True) else FAILS
    counts = {name: evaluation_of(run)["ess"].get("samples") for name, (run, _) in found.items()}
    if outcome == HOLDS and (found["BiHM p*"][1] < 11.9 or min(counts.values()) < 100_000):
        outcome = PARTLY
    numbers = ", ".join(f"{name} {value:.2f}% (K = {counts[name]:,})"
                        for name, (_, value) in found.items())  # fmt: skip
    return Claim(
        text, outcome, numbers, tuple(dict.fromkeys(run.name for run, _ in found.values()))
    )


def _log_z2(runs: Sequence[Run]) -> list[Claim]:
    text = "2 log Z: 10 million samples give a standard error below 0.1"
    run = mnist_run(runs)
    if run is None or run.log_z2 is None:
        first = Claim(text)
    else:
        error, samples = run.log_z2.standard_error, evaluation_of(run)["log_z2"].get("samples", 0)
        outcome = HOLDS if error is not None and error < 0.1 else FAILS
        seconds = evaluation_of(run).get("estimator_seconds", {}).get("2 log Z")
        took = f" in {seconds:.0f} s" if seconds else ""
        value = f"{run.log_z2.value:.2f} ± {error:.3f}, {samples:,} samples{took}"
        first = Claim(text, outcome, value, (run.name,))
    text = "2 log Z: p and q come close; UCI, -2 log Z of at most the paper's"
    found = [
        (entry, run.name, round(-run.log_z2.value, 2))
        for entry, run in _comparable_runs(runs)
        if run.log_z2 is not None
    ]
    close = {entry.name: value <= entry.minus_log_z2 for entry, _, value in found}
    numbers = {e.name: f"{value:.2f} ({e.minus_log_z2:.2f})" for e, _, value in found}
    return [first, _counted(text, close, numbers, tuple(name for _, name, _ in found))]


def _learning(runs: Sequence[Run]) -> Claim:
    text = "Learning curves: BiHM makes more progress per update than RWS and VAE"
    curves, _ = learning_curves(runs)
    if curves.empty or "BiHM" not in set(curves["method"]):
        return Claim(text)
    by_method = dict(list(curves.groupby("method", sort=False)))
    ours, outcomes, numbers = by_method.pop("BiHM"), {}, {}
    for name, curve in by_method.items():
        last = min(curve["updates"].max(), ours["updates"].max())
        here, there = (part[part["updates"] <= last]["log_p"] for part in (ours, curve))
        if len(here) and len(there):
            outcomes[name] = bool(here.iloc[-1] >= there.iloc[-1])
            numbers[name] = (
                f"{there.iloc[-1]:.1f} (BiHM {here.iloc[-1]:.1f}) after {last:,} updates"
            )
    return _counted(text, outcomes, numbers, tuple(dict.fromkeys(curves["run"])))


def _pictures(runs: Sequence[Run]) -> list[Claim]:
    claims = []
    for text, names, figure in (
        ("MNIST: samples of p* after ten Gibbs iterations are whole digits", (MNIST,), "samples"),
        ("MNIST: hidden parts of digits are completed plausibly", (MNIST,), "inpainting"),
        ("Faces: samples and inpainting on the Toronto Face Database", FACES, "faces"),
    ):
        run = model_run(runs, *names)
        numbers = f"to be judged by eye: figures/{figure}.png"
        if run is not None and figure == "faces" and run.dataset != "tfd":
            numbers += f"; {run.dataset} in place of the Toronto faces"
        claims.append(Claim(text, "shown", numbers, (run.name,)) if run else Claim(text))
    return claims


CLAIMS: tuple[Callable[[Sequence[Run]], Claim | list[Claim]], ...] = (
    _mnist_numbers,
    _uci_numbers,
    _against_rws,
    _depth,
    _layers_used,
    _over_k,
    _ess,
    _log_z2,
    _learning,
    _pictures,
)


def _contest(runs: Sequence[Run]) -> list[Claim]:
    """The comparison with RWS where both have the same schedule and grid of penalties.

    Validation chooses the layers of each; a difference counts as in the contest's table.
    """
    texts = ("With one schedule for both, BiHM is better than RWS (UCI)",
             "With one schedule for both, BiHM gains from deeper models (UCI)")  # fmt: skip
    entries = contest_entries(runs)
    better, deeper, gaps, gains, used = {}, {}, {}, {}, 0
    for name in paper.UCI_BY_NAME:
        found = {key[1:]: entry for key, entry in entries.items() if key[0] == name}
        if len(found) < 4:
            continue
        bihm, rws = (max((found[kind, method] for kind in ("deep", "shallow")),
                         key=lambda entry: entry.valid) for method in ("BiHM", "RWS"))  # fmt: skip
        better[name], gaps[name] = compare(bihm, rws) < 0, f"{bihm.mean - rws.mean:+.2f}"
        deep, shallow = found["deep", "BiHM"], found["shallow", "BiHM"]
        deeper[name], gains[name] = compare(deep, shallow) < 0, f"{deep.mean - shallow.mean:+.2f}"
        used += sum(len(entry.runs) for entry in found.values())
    names = (f"contest/ ({used} runs)",)
    return [_counted(texts[0], better, gaps, names), _counted(texts[1], deeper, gains, names)]


def all_claims(runs: Sequence[Run]) -> list[Claim]:
    """Return every claim with its outcome in ``runs``."""
    found = [claim(runs) for claim in (*CLAIMS, _contest)]
    return [one for part in found for one in (part if isinstance(part, list) else [part])]


def claims_table(runs: Sequence[Run]) -> Table:
    """One row per claim of the paper."""
    claims = all_claims(runs)
    columns = (
        Column("claim", "claim of the paper", left=True),
        Column("outcome", "here", left=True),
        Column("numbers", "numbers", left=True),
        Column("runs", "runs", left=True),
    )
    rows = [
        [Cell(claim.text), Cell(claim.outcome), Cell(claim.numbers or None),
         Cell(", ".join(claim.runs) or None)]
        for claim in claims
    ]  # fmt: skip
    notes = [
        "-log p in nats on the test split. A difference counts as none where it rounds to zero. "
        "“holds in part”: on some data sets only, or with fewer samples than the paper's, or "
        "against a run with fewer than half the updates.",
        *notes_for(
            run for run in runs if run.name in {name for one in claims for name in one.runs}
        ),
    ]
    return Table("claims", "The paper's claims, and whether they hold here", columns, rows, notes)


def claims_page(runs: Sequence[Run]) -> str:
    """Return the page ``results/claims.md``."""
    return to_markdown(claims_table(runs), heading="#")
