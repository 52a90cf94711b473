"""Mutated status.json, evaluation.json and log.csv: refused, or good enough for every reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bihm_repro.recipes.recipe import EvaluationRecipe
from bihm_repro.report.compare import comparison_table
from bihm_repro.report.tables import build_tables
from bihm_repro.report.tables.table import to_csv, to_latex, to_markdown
from bihm_repro.runs.evaluation import answers, is_up_to_date
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.reader import Run, main_run, read_run, seed_groups
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_json, mutated_text

RECIPE = 'dataset = "adult"\nseed = 1\ntitle = "a run"\n[model]\nkind = "bihm"\nlayers = [5, 3]\n'
STATUS = {
    "finished": True, "phase": 1, "phases": 2, "epochs": 3, "updates": 30, "seconds": 9.5,
    "best_valid": -20.5, "best_epoch": 2, "cut_by_budget": False, "engine": "theano 1.1.2",
    "data_fingerprint": "f", "recipe_fingerprint": "r", "commit": "0123456789", "version": "1",
}  # fmt: skip
ESTIMATE = {"value": -20.25, "standard_error": 0.5}
EVALUATION = {
    "dataset": "adult", "split": "test", "n_examples": 26147, "seed": 0, "commit": "0123",
    "data_fingerprint": "f", "data_exactness": "exact", "model_kind": "bihm", "layers": [5, 3],
    "recipe_fingerprint": "r", "model_fingerprint": "m", "finished": True, "seconds": 3.5,
    "updates": 30, "estimator_seconds": {"2 log Z": 1.5},
    "samples": {
        count: {"log_p": ESTIMATE, "log_p_tilde_star": ESTIMATE, "log_p_star": ESTIMATE}
        for count in ("1", "10", "100")
    },
    "log_z2": {**ESTIMATE, "samples": 1000, "inner": 1},
    "ess": {"samples": 100, "examples": 100, "p": ESTIMATE, "p_star": ESTIMATE},
}  # fmt: skip
LOG = "phase,epoch,updates,seconds,valid_log_p,best,test_log_p_10,log_z2,active_units\n" + "".join(
    f"{epoch // 3},{epoch},{10 * epoch},{epoch}.5,-2{epoch}.25,1,,,{'5 3' if epoch % 2 else ''}\n"
    for epoch in range(1, 6)
)
FILES: dict[str, Any] = {"status.json": STATUS, "evaluation.json": EVALUATION, "log.csv": LOG}


def _attack(prepared: None, case: Case) -> str:
    chosen = case.random.choice(list(FILES))
    (case.folder / "recipe.toml").write_text(RECIPE)
    for name, value in FILES.items():
        if name != chosen:
            text = value if isinstance(value, str) else json.dumps(value)
            (case.folder / name).write_text(text)
        elif isinstance(value, str):
            (case.folder / name).write_bytes(mutated_text(value, case.random))
        else:
            (case.folder / name).write_bytes(mutated_json(value, case.random))
    use(read_run(case.folder), tables=case.random.random() < 0.1)
    return "accepted"


def use(run: Run, tables: bool) -> None:
    """Ask of a run all that commands ask of it."""
    for value in (run.finished, run.updates, run.validation_counts, run.log_z2, run.seed):
        str(value)
    for count in run.all_sample_counts:
        run.estimate("log_p", count)
    str([run.ess("p"), run.ess("p_star"), main_run([run], run.dataset, run.kind)])
    if run.evaluation is not None:
        is_up_to_date(run.evaluation, "m", "f")
        answers(run.evaluation, EvaluationRecipe(), 26147)
    RunDirectory(run.path).check_data(run.status.get("data_fingerprint", ""))
    seed_groups([run, run])
    if not tables:
        return
    for table in (*build_tables([run]), comparison_table([run, run])):
        for text in (to_markdown(table), to_csv(table), to_latex(table)):
            if "\x1b" in text or "\x00" in text:
                raise Failure(f"a control character in table {table.name}")


def _prepare(folder: Path) -> None:
    return None


GROUP = Group("records", 2.0, _prepare, _attack)
