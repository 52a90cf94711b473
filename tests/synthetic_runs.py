"""Run folders with known numbers, for the tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.datasets.registry import DATASETS

LOG_HEADER = (
    "phase,epoch,updates,seconds,learning_rate,samples,train_log_p,"
    "train_log_p_tilde_star,valid_log_p,valid_log_p_tilde_star,valid_bound,best,"
    "test_log_p_1,test_log_p_1000,test_log_p_tilde_star_1,test_log_p_tilde_star_1000,"
    "log_z2"
)


def evaluation(
    log_p: float,
    *,
    counts: tuple[int, ...] = (1, 10, 1000),
    star: bool = True,
    log_z2: float = -0.25,
    ess: float = 81.0,
    error: float = 0.05,
    **extra: Any,
) -> dict[str, Any]:
    """An evaluation whose log p at the largest K is ``log_p``; one nat lower a step of K down."""
    samples = {}
    for step, count in enumerate(reversed(counts)):
        value = log_p - step
        entry = {"log_p": {"value": value, "standard_error": error}}
        if star:
            entry["log_p_tilde_star"] = {"value": value - 0.3, "standard_error": error}
            entry["log_p_star"] = {"value": value - 0.3 - log_z2, "standard_error": error}
        samples[str(count)] = entry
    content = {
        "dataset": "set",
        "split": "test",
        "seed": 0,
        "commit": "abcdef0123456789",
        "data_fingerprint": "f",
        "samples": samples,
        "ess": {
            "samples": 10000,
            "examples": 100,
            "p": {"value": ess / 10, "standard_error": 0.04},
        },
    }
    if star:
        content["log_z2"] = {"value": log_z2, "standard_error": 0.01, "samples": 1000000}
        content["ess"]["p_star"] = {"value": ess, "standard_error": 0.2}
    return {**content, **extra}


def write_run(
    results: Path,
    name: str,
    dataset: str,
    *,
    kind: str = "bihm",
    layers: tuple[int, ...] = (3, 2),
    seed: int = 0,
    finished: bool = True,
    updates: int = 2000,
    evaluated: dict[str, Any] | None = None,
    epochs: int = 0,
    dim: int = 0,
    extra: str = "",
    best_valid: float = -10.0,
) -> Path:
    """Write a run folder: recipe, status, and a log, model and evaluation where asked for."""
    folder = results / name
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(
        f'dataset = "{dataset}"\nseed = {seed}\ntitle = "run {name}"\n\n[model]\n'
        f'kind = "{kind}"\nlayers = {list(layers)}\n{extra}'
    )
    (folder / "status.json").write_text(
        json.dumps(
            {
                "finished": finished,
                "phase": 1,
                "phases": 2,
                "epochs": 20,
                "updates": updates,
                "seconds": 90.0,
                "best_valid": best_valid,
                "engine": "theano 1.1.2",
                "commit": "0123456789abcdef",
            }
        )
    )
    if evaluated is not None:
        sizes = DATASETS[dataset].sizes if dataset in DATASETS else {"test": 500}
        evaluated = {"n_examples": sizes["test"], **evaluated}
        (folder / "evaluation.json").write_text(json.dumps(evaluated))
    if epochs:
        (folder / "log.csv").write_text(log_text(epochs, kind))
    if dim:
        np.savez(folder / "model.npz", **parameters(dim, layers))
    return folder


def log_text(epochs: int, kind: str = "bihm") -> str:
    """A log with a test measurement every second epoch; tilde columns empty for VAE and IWAE."""
    lines = [LOG_HEADER]
    for epoch in range(1, epochs + 1):
        value = -100.0 - 50.0 / epoch
        tilde = f"{value - 1}" if kind == "bihm" else ""
        test = ",,,,"
        if epoch % 2 == 0:
            star = f"{value - 6},{value - 2}" if kind == "bihm" else ","
            log_z2 = "-2.5" if kind == "bihm" else ""
            test = f"{value - 5},{value},{star},{log_z2}"
        lines.append(
            f"0,{epoch},{epoch * 500},{epoch * 30.0},0.001,10,{value + 1},{tilde},"
            f"{value},{tilde},{value - 5},{value},{test}"
        )
    return "\n".join(lines) + "\n"


def parameters(dim: int, layers: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Small random parameters of a model, by the names of ``model.npz``."""
    generator = np.random.default_rng(7)
    sizes = (dim, *layers)
    values: dict[str, np.ndarray] = {}
    for level, (lower, upper) in enumerate(zip(sizes, sizes[1:])):
        values[f"p{level}.W"] = generator.normal(0, 0.1, (upper, lower)).astype("float32")
        values[f"p{level}.b"] = generator.normal(0, 0.5, lower).astype("float32")
        values[f"q{level}.W"] = generator.normal(0, 0.1, (lower, upper)).astype("float32")
        values[f"q{level}.b"] = generator.normal(0, 0.5, upper).astype("float32")
    values[f"p{len(layers)}.b"] = generator.normal(0, 0.5, layers[-1]).astype("float32")
    values["meta"] = np.array(
        json.dumps(
            {"kind": "bihm", "layers": list(layers), "data_dim": dim, "recipe_fingerprint": "f"}
        )
    )
    return values


def cells(table: Any, first: str) -> dict[str, str]:
    """The texts of the row that starts with ``first``, by column key."""
    row = next(row for row in table.rows if row[0].text == first)
    return {column.key: cell.text for column, cell in zip(table.columns, row)}
