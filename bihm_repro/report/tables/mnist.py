"""The paper's Table 3 and the numbers of its Section 4.1 from our own MNIST runs."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.report import paper
from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import (
    MNIST,
    evaluation_of,
    method_of,
    method_run,
    methods_in,
    negative_log_likelihood,
    without_samples,
)
from bihm_repro.report.tables.depth import depth_runs
from bihm_repro.report.tables.runs import active_units
from bihm_repro.report.tables.table import Cell, Column, Table, difference, estimate_cell
from bihm_repro.report.tables.uci import uci_run
from bihm_repro.runs.reader import Run

__all__ = ["ess_table", "mnist_others_table", "mnist_run", "mnist_table", "samples_table"]

RESAMPLED = "mnist"
FIRST = ("BiHM", "RWS", "VAE", "IWAE")


def mnist_run(runs: Sequence[Run], method: str = "BiHM", dataset: str = MNIST) -> Run | None:
    """Return the evaluated MNIST run that represents a method."""
    return method_run(runs, dataset, method, paper.MNIST_LAYERS.get(method))


def main_mnist_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the run of each method, the paper's first, then BiHM with resampled pixels."""
    methods = dict.fromkeys([*FIRST, *methods_in(runs)])
    found = [mnist_run(runs, method) for method in methods]
    return [run for run in (*found, mnist_run(runs, "BiHM", RESAMPLED)) if run is not None]


def _row(
    label: str,
    run: Run | None,
    quoted_bound: float | None = None,
    quoted: float | None = None,
    quantity: str = "log_p",
) -> list[Cell]:
    marks = marks_of(run)
    # With K = 1 the estimate of log p* is no bound: its partition function is estimated apart.
    bounded = run is not None and quantity == "log_p" and not without_samples(run)
    bound = negative_log_likelihood(run, quantity, 1) if bounded else None
    estimate = negative_log_likelihood(run, quantity)
    return [
        Cell(label),
        estimate_cell(bound, marks=marks),
        Cell(quoted_bound, decimals=1),
        difference(bound, quoted_bound, 1),
        estimate_cell(estimate, marks=marks),
        Cell(quoted, decimals=1),
        difference(estimate, quoted, 1),
        Cell(None if run is None else run.updates),
        Cell(None if run is None else run.name),
    ]


def mnist_table(runs: Sequence[Run]) -> Table:
    """Table 3: bound and estimate of the test -log p(x), ours beside what the paper quotes."""
    entries = [(row.model, row.method, row.bound, row.estimate) for row in paper.MNIST]
    text = paper.MNIST_TEXT
    entries.insert(3, ("VAE, the authors' own", "VAE", text["vae_bound"], text["vae_nll_p"]))
    listed = {method for _, method, _, _ in entries}
    others = [name for name in methods_in(runs) if name not in listed and mnist_run(runs, name)]
    entries += [(f"{name} (not in the paper)", name, None, None) for name in others]
    chosen = [None if entry[1] is None else mnist_run(runs, entry[1]) for entry in entries]
    rows = [_row(entry[0], run, *entry[2:]) for entry, run in zip(entries, chosen)]
    resampled = mnist_run(runs, "BiHM", RESAMPLED)
    star = _row("BiHM, -log p*", mnist_run(runs), None, text["nll_p_star"], "log_p_star")
    rows += [star, _row("BiHM, resampled pixels", resampled, None, text["nll_p_resampled"])]
    columns = (
        Column("model", "model", left=True),
        Column("bound", "bound", r"$\le -\log p(x)$", estimates=True),
        Column("paper_bound", "paper"),
        Column("difference_bound", "diff."),
        Column("estimate", "estimate", r"$\approx -\log p(x)$", estimates=True),
        Column("paper_estimate", "paper"),
        Column("difference_estimate", "diff."),
        Column("updates", "updates"),
        Column("run", "run", left=True),
    )
    title = "Binarized MNIST: bounds and estimates of the test -log p(x)"
    return Table("mnist", title, columns, rows, _mnist_notes([*chosen, resampled]))


def _mnist_notes(present: Sequence[Run | None]) -> list[str]:
    estimated = [run for run in present if run is not None and not without_samples(run)]
    counts = sorted({run.sample_counts[-1] for run in estimated})
    largest = ", ".join(f"{count:,}" for count in counts) or "the largest evaluated"
    return [
        f"bound: K = 1; estimate: K = {largest}. ± is one standard error of the mean over the "
        "test rows; diff. is ours minus the paper's: negative is better.",
        "updates: gradient steps before the evaluation; the paper speaks of 1,000,000.",
        *notes_for(present),
        "—: no evaluated run, or no number in the paper.",
    ]


def mnist_others_table(runs: Sequence[Run]) -> Table:
    """Every other evaluated run on MNIST, but for those of the table of depths."""
    deepest, *compared = depth_runs(runs)
    depths = [run for group in compared for run in group] + ([deepest] if deepest else [])
    shown = {run.name for run in (*main_mnist_runs(runs), *depths)}
    others = [
        run
        for run in runs
        if run.dataset in (MNIST, RESAMPLED) and run.evaluation and run.name not in shown
    ]
    rows = [
        [
            Cell(run.name),
            Cell(run.dataset),
            Cell(method_of(run)),
            Cell(", ".join(map(str, run.layers))),
            Cell(run.seed),
            estimate_cell(negative_log_likelihood(run, samples=1), marks=marks_of(run)),
            estimate_cell(negative_log_likelihood(run), marks=marks_of(run)),
            Cell(run.updates),
            Cell(", ".join(map(str, active_units(run))) or None),
        ]
        for run in others
    ]
    columns = (
        Column("run", "run", left=True),
        Column("set", "set", left=True),
        Column("model", "model", left=True),
        Column("layers", "layers", left=True),
        Column("seed", "seed"),
        Column("bound", "bound", estimates=True),
        Column("estimate", "estimate", estimates=True),
        Column("updates", "updates"),
        Column("active_units", "active units", left=True),
    )
    notes = notes_for(others) if rows else ["No other evaluated run on MNIST."]
    title = "Binarized MNIST: other recipes and seeds"
    return Table("mnist-others", title, columns, rows, notes)


def ess_table(runs: Sequence[Run]) -> Table:
    """Effective sample sizes of q(h|x) on MNIST and the UCI sets, beside the paper's."""
    wanted: list[tuple[str, str, str, float | None, float | None]]
    wanted = [("mnist", row.method, row.target, row.value, row.error) for row in paper.MNIST_ESS]
    wanted.append(("mnist", "IWAE", "p", None, None))
    for entry in paper.UCI:
        wanted += [
            (entry.name, "BiHM", "p_star", entry.ess, None),
            (entry.name, "BiHM", "p", None, None),
            (entry.name, "RWS", "p", None, None),
        ]
    rows, present = [], []
    for name, method, target, quoted, error in wanted:
        uci = paper.UCI_BY_NAME.get(name)
        run = mnist_run(runs, method) if uci is None else uci_run(runs, uci, method)
        if run is not None or quoted is not None:
            present.append(run)
            rows.append(_ess_row(name, method, target, run, quoted, error))
    columns = (
        Column("set", "set", left=True),
        Column("model", "model", left=True),
        Column("target", "posterior of", left=True),
        Column("ess", "ESS %", r"ESS \%", estimates=True),
        Column("paper_ess", "paper", estimates=True),
        Column("samples", "K"),
        Column("examples", "test rows"),
        Column("run", "run", left=True),
    )
    notes = [
        "ESS: effective sample size of q(h|x) as the proposal for the posterior of p* or p, "
        "in percent of K, averaged over test rows; it falls as K grows. The paper's MNIST "
        "numbers are for K = 100,000.",
        *notes_for(present),
    ]
    return Table("ess", "Effective sample size", columns, rows, notes)


def _ess_row(
    dataset: str,
    method: str,
    target: str,
    run: Run | None,
    quoted: float | None,
    quoted_error: float | None,
) -> list[Cell]:
    ess = evaluation_of(run).get("ess") or {}
    return [
        Cell(dataset),
        Cell(method),
        Cell({"p_star": "p*", "p": "p"}[target]),
        estimate_cell(run.ess(target) if run else None, marks=marks_of(run)),
        Cell(quoted, quoted_error, 1 if quoted_error is None else 2),
        Cell(ess.get("samples")),
        Cell(ess.get("examples", ess.get("n_examples"))),
        Cell(run.name if run else None),
    ]


def samples_table(runs: Sequence[Run]) -> Table:
    """How the estimates depend on K: one row for each MNIST run and quantity."""
    chosen = main_mnist_runs(runs)
    counts = sorted({count for run in chosen for count in run.all_sample_counts})
    rows = [
        [
            Cell(run.name, marks=marks_of(run)),
            Cell(method_of(run)),
            Cell(title),
            *(estimate_cell(negative_log_likelihood(run, quantity, k)) for k in counts),
        ]
        for run in chosen
        for quantity, title in (("log_p", "-log p"), ("log_p_star", "-log p*"))
        if negative_log_likelihood(run, quantity) is not None
    ]
    columns = [
        Column("run", "run", left=True),
        Column("model", "model", left=True),
        Column("quantity", "estimate of", left=True),
        *(Column(f"k_{count}", f"K = {count:,}", estimates=True) for count in counts),
    ]
    notes = ["The paper: BiHM with K = 10 is above RWS with K = 10,000."]
    if any(run.all_sample_counts != run.sample_counts for run in chosen):
        notes.append(
            "The largest K come from the samples of the effective sample size: their differences "
            "to the largest K that all test rows have are means over its examples."
        )
    notes += notes_for(chosen)
    if not rows:
        notes = ["No evaluated run on MNIST."]
    title = "Binarized MNIST: sensitivity to the number of samples K"
    return Table("samples", title, columns, rows, notes)
