"""The paper's Table 3 and the numbers of its Section 4.1 from our own MNIST runs."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.report import paper
from bihm_repro.report.formats import Cell, Column, Table, difference, estimate_cell
from bihm_repro.report.marks import marks_of, notes_for
from bihm_repro.runs.reader import Estimate, Run, main_run

__all__ = ["MNIST_SETS", "ess_table", "mnist_others_table", "mnist_run", "mnist_table",
           "samples_table"]

MNIST = "binarized_mnist"
DYNAMIC = "mnist"
MNIST_SETS = (MNIST, DYNAMIC)
PAPER_LAYERS = {"bihm": paper.BIHM_MNIST_LAYERS, "rws": paper.RWS_MNIST_LAYERS,
                "vae": paper.VAE_ARCHITECTURE["layers"]}
KIND_TITLES = {"bihm": "BiHM", "rws": "RWS", "vae": "VAE", "iwae": "IWAE"}


def mnist_run(runs: Sequence[Run], kind: str, dataset: str = MNIST) -> Run | None:
    """The evaluated MNIST run that speaks for a kind of model."""
    run = main_run(runs, dataset, kind, PAPER_LAYERS.get(kind))
    return run if run is not None and run.evaluation is not None else None


def _nll(run: Run | None, quantity: str = "log_p", samples: int | None = None) -> Estimate | None:
    estimate = None if run is None else run.estimate(quantity, samples)
    return None if estimate is None else estimate.negated()


def _row(label: str, run: Run | None, quoted_bound: float | None, quoted: float | None,
         quantity: str = "log_p") -> list[Cell]:
    marks = "" if run is None else marks_of(run)
    # At K = 1 the estimate of log p* bounds nothing, since its Z is known apart.
    bound = _nll(run, quantity, 1) if quantity == "log_p" else None
    estimate = _nll(run, quantity)
    return [Cell(label), estimate_cell(bound, marks=marks),
            Cell(quoted_bound, decimals=1), difference(bound, quoted_bound, 1),
            estimate_cell(estimate, marks=marks), Cell(quoted, decimals=1),
            difference(estimate, quoted, 1), Cell(None if run is None else run.updates),
            Cell(None if run is None else run.name)]


def mnist_table(runs: Sequence[Run]) -> Table:
    """Table 3: bound and estimate of the test -log p(x), ours beside what the paper quotes."""
    present: list[Run | None] = []
    rows = []
    for entry in paper.MNIST:
        run = None if entry.kind is None else mnist_run(runs, entry.kind)
        present.append(run)
        rows.append(_row(entry.model, run, entry.bound, entry.estimate))
        if entry.kind == "vae":
            text = paper.MNIST_TEXT
            rows.append(_row("VAE, the authors' own", run, -text["vae_bound"].value,
                             -text["vae_log_p"].value))
    bihm, dynamic = mnist_run(runs, "bihm"), mnist_run(runs, "bihm", DYNAMIC)
    present.append(dynamic)
    rows.append(_row("BiHM, -log p*", bihm, None, -paper.MNIST_TEXT["log_p_star"].value,
                     "log_p_star"))
    rows.append(_row("BiHM, resampled pixels", dynamic, None,
                     -paper.BINARIZATION_RESAMPLED.value))
    columns = (Column("model", "model", left=True),
               Column("bound", "bound", r"$\le -\log p(x)$", estimates=True),
               Column("paper_bound", "paper"), Column("difference_bound", "diff."),
               Column("estimate", "estimate", r"$\approx -\log p(x)$", estimates=True),
               Column("paper_estimate", "paper"), Column("difference_estimate", "diff."),
               Column("updates", "updates"), Column("run", "run", left=True))
    return Table("mnist", "Binarized MNIST: bounds and estimates of the test -log p(x)", columns,
                 rows, _mnist_notes(present))


def _mnist_notes(present: Sequence[Run | None]) -> list[str]:
    counts = sorted({run.sample_counts[-1] for run in present if run is not None})
    largest = ", ".join(f"{count:,}" for count in counts)
    notes = ["bound: K = 1" + (f"; estimate: K = {largest}." if largest else "; estimate: the "
             "largest K evaluated.") + " ± is one standard error of the mean over the test rows; "
             "diff. is ours minus the paper's: negative is better.",
             "updates: gradient steps made when the model was evaluated; the paper speaks of "
             "1,000,000.",
             *notes_for(present)]
    return [*notes, "—: no evaluated run, or no number in the paper."]


def mnist_others_table(runs: Sequence[Run]) -> Table:
    """Every other evaluated run on MNIST: shallower models, other recipes, more seeds."""
    shown = {run.name for kind in KIND_TITLES if (run := mnist_run(runs, kind)) is not None}
    dynamic = mnist_run(runs, "bihm", DYNAMIC)
    shown |= {dynamic.name} if dynamic is not None else set()
    others = [run for run in runs if run.dataset in MNIST_SETS and run.evaluation is not None
              and run.name not in shown]
    rows = [[Cell(run.name), Cell(run.dataset), Cell(KIND_TITLES[run.kind]),
             Cell(", ".join(map(str, run.layers))), Cell(run.seed),
             estimate_cell(_nll(run, samples=1), marks=marks_of(run)),
             estimate_cell(_nll(run), marks=marks_of(run)), Cell(run.updates)] for run in others]
    columns = (Column("run", "run", left=True), Column("set", "set", left=True),
               Column("model", "model", left=True), Column("layers", "layers", left=True),
               Column("seed", "seed"), Column("bound", "bound", estimates=True),
               Column("estimate", "estimate", estimates=True), Column("updates", "updates"))
    notes = notes_for(others) or (["No other evaluated run on MNIST."] if not rows else [])
    return Table("mnist-others", "Binarized MNIST: other depths, recipes and seeds", columns, rows,
                 notes)


def ess_table(runs: Sequence[Run]) -> Table:
    """Effective sample sizes of q(h|x) on MNIST and the UCI sets, beside the paper's."""
    from bihm_repro.report.uci_tables import uci_run

    rows, present = [], []
    for quoted in paper.ESS:
        run = mnist_run(runs, quoted.kind)
        present.append(run)
        rows.append(_ess_row("mnist", quoted.kind, quoted.target, run, quoted.value, quoted.error))
    iwae = mnist_run(runs, "iwae")
    if iwae is not None:
        present.append(iwae)
        rows.append(_ess_row("mnist", "iwae", "p", iwae, None))
    for entry in paper.UCI:
        for kind, target, value in (("bihm", "p_star", entry.ess), ("bihm", "p", None),
                                    ("rws", "p", None)):
            run = uci_run(runs, entry, kind)
            if run is None and value is None:
                continue
            present.append(run)
            rows.append(_ess_row(entry.name, kind, target, run, value))
    columns = (Column("set", "set", left=True), Column("model", "model", left=True),
               Column("target", "posterior of", left=True),
               Column("ess", "ESS %", r"ESS \%", estimates=True),
               Column("paper_ess", "paper", estimates=True), Column("samples", "K"),
               Column("examples", "test rows"), Column("run", "run", left=True))
    notes = ["ESS: effective sample size of q(h|x) as the proposal for the posterior of p* or p, "
             "in percent of K, averaged over test rows; it falls as K grows. The paper's MNIST "
             "numbers are for K = 100,000.",
             *notes_for(present)]
    return Table("ess", "Effective sample size", columns, rows, notes)


def _ess_row(dataset: str, kind: str, target: str, run: Run | None, quoted: float | None,
             quoted_error: float | None = None) -> list[Cell]:
    ess = (run.evaluation.get("ess") or {}) if run is not None else {}
    return [Cell(dataset), Cell(KIND_TITLES[kind]),
            Cell({"p_star": "p*", "p": "p"}[target]),
            estimate_cell(run.ess(target) if run else None, marks=marks_of(run) if run else ""),
            Cell(quoted, quoted_error, 1 if quoted_error is None else 2), Cell(ess.get("samples")),
            Cell(ess.get("examples", ess.get("n_examples"))), Cell(run.name if run else None)]


def samples_table(runs: Sequence[Run]) -> Table:
    """How the estimates depend on K: a row for each MNIST run and quantity."""
    chosen = [run for kind in KIND_TITLES if (run := mnist_run(runs, kind)) is not None]
    dynamic = mnist_run(runs, "bihm", DYNAMIC)
    chosen += [dynamic] if dynamic is not None else []
    counts = sorted({count for run in chosen for count in run.sample_counts})
    rows = []
    for run in chosen:
        for quantity, title in (("log_p", "-log p"), ("log_p_star", "-log p*")):
            if _nll(run, quantity) is None:
                continue
            cells = [estimate_cell(_nll(run, quantity, count)) for count in counts]
            rows.append([Cell(run.name, marks=marks_of(run)), Cell(KIND_TITLES[run.kind]),
                         Cell(title), *cells])
    columns = [Column("run", "run", left=True), Column("model", "model", left=True),
               Column("quantity", "estimate of", left=True)]
    columns += [Column(f"k_{count}", f"K = {count:,}", estimates=True) for count in counts]
    notes = ["The paper: BiHM with K = 10 is above RWS with K = 10,000.", *notes_for(chosen)]
    if not rows:
        notes = ["No evaluated run on MNIST."]
    return Table("samples", "Binarized MNIST: sensitivity to the number of samples K", columns,
                 rows, notes)
