"""``python -m bihm_repro.api.pretrained``: copy trained models from ``results/`` to the package.

Each is ``NAME.npz`` as :meth:`Model.save` writes it, and ``NAME.json``: how it was trained (the
run's status and its evaluation), which ``load_model(NAME).trained_`` returns.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bihm_repro.api.storage import PRETRAINED, RESULTS, load_model
from bihm_repro.files import write_json
from bihm_repro.progress import say
from bihm_repro.runs.arrays import fingerprint_of

__all__ = ["NAMES", "main", "refresh"]

NAMES = ("mnist", "mushrooms")


def refresh(name: str, folder: Path = PRETRAINED) -> None:
    """Write the model of the run ``results/name``, and how it was trained."""
    model = load_model(RESULTS / name)
    model.history_ = model.history_[["epoch", "updates", "seconds", "valid_log_p"]]
    fingerprint = fingerprint_of(model.parameters)
    evaluation = model.trained_["evaluation"] or {}
    if evaluation.get("model_fingerprint") != fingerprint:
        say(f"{RESULTS / name}: its evaluation is of another model; run bihm evaluate")
        evaluation = {}
    model.save(folder / f"{name}.npz")
    record = {**model.trained_, "evaluation": evaluation, "model_fingerprint": fingerprint}
    write_json(folder / f"{name}.json", record)
    say(f"{folder / name}.npz: {(folder / f'{name}.npz').stat().st_size / 2**20:.1f} MiB")


def main() -> int:
    """Refresh the models named on the command line, or all."""
    for name in sys.argv[1:] or NAMES:
        refresh(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
