"""The role of each split: training rows train, validation rows decide, test rows report."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.datasets.dataset import Dataset
from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.training import session
from bihm_repro.training.extensions import Extension
from bihm_repro.training.session import Options, TrainingData, train

ONES, ZEROS = np.ones((6, 4), np.float32), np.zeros((5, 4), np.float32)


def test_the_splits_of_a_data_set_keep_their_roles():
    splits = {name: np.full((3, 2), value) for value, name in enumerate(("test", "valid", "train"))}
    data = TrainingData.of(Dataset("own", splits, "f", "own", grey=True, image_shape=(1, 2)))
    assert (data.fingerprint, data.binarize, data.image_shape) == ("f", True, (1, 2))
    assert (data.train == 2).all() and (data.valid == 1).all() and (data.test == 0).all()


@pytest.fixture(scope="module")
def logs():
    """One epoch at a rate of nothing: the model says 1 with probability 0.98 everywhere."""
    recipe = Recipe.from_dict(
        {
            "dataset": "own",
            "model": {"layers": [2]},
            "phases": [{"max_epochs": 1, "samples": 2, "learning_rate": 1e-9}],
            "monitor": {"test_every": 1, "test_samples": [2], "test_examples": 0, "z_samples": 0},
        }
    )
    found = []
    for train_rows, valid, test in ((ZEROS, ONES, ZEROS), (ONES, ZEROS, ONES)):
        model = BidirectionalHelmholtzMachine(4, [2]).allocate().initialize(0)
        values = {name: np.zeros_like(value) for name, value in model.get_values().items()}
        model.set_values({**values, "p0.b": np.full(4, 4.0)})
        found.append(
            train(model, recipe, TrainingData(train_rows, valid, test), options=Options(quiet=True))
        )
    return found


def test_validation_is_measured_on_validation_rows_and_test_on_test_rows(logs):
    likely, unlikely = -4 * np.log1p(np.exp(-4.0)), -4 * np.log1p(np.exp(4.0))
    for log, valid, test in ((logs[0], likely, unlikely), (logs[1], unlikely, likely)):
        row = log.rows[0]
        assert row["valid_log_p"] == pytest.approx(valid, abs=1e-4)
        assert row["test_log_p_2"] == pytest.approx(test, abs=1e-4)
        assert row["train_log_p"] == pytest.approx(test, abs=1e-3)
        assert log.status.best_valid == row["valid_log_p"]


def test_training_goes_on_from_the_state_in_the_folder(tmp_path):
    run, found = RunDirectory(tmp_path / "run"), []
    model = SimpleNamespace(get_values=lambda: {"w": np.zeros(2)})
    loop = SimpleNamespace(model=model, resume=lambda *given: found.append(given))
    run.path.mkdir()
    session.restore(loop, run, "f")
    assert found == []
    record = {"status": {"updates": 7}, "rows": [{"epoch": 1}], "data_fingerprint": "f"}
    run.write_state({"parameter/w": np.ones(2), "rule/count": np.array(7)}, record)
    session.restore(loop, run, "f")
    [(log, groups)] = found
    assert log.status.updates == 7 and log.rows == [{"epoch": 1}]
    assert groups["parameter"]["w"].tolist() == [1, 1] and groups["rule"] == {"count": 7}
    with pytest.raises(InputError, match="began on other data"):
        session.restore(loop, run, "g")
    assert len(found) == 1


MEASURING = ["FiniteMetrics", "EpochLimit", "Validation", "BestSoFar"]
TESTING = ["MetricsOnTestSet", "ActiveUnits"]


@pytest.mark.parametrize(
    ("options", "test", "overrides", "expected"),
    [
        ({}, ONES, (), [*MEASURING, *TESTING, "Patience", "Interruption"]),
        ({}, None, (), [*MEASURING, "ActiveUnits", "Patience", "Interruption"]),
        (
            {},
            ONES,
            ("monitor.test_every=0", "monitor.units_every=0"),
            [*MEASURING, "Patience", "Interruption"],
        ),
        (
            {},
            ONES,
            ("phases.1.restart_dead=true",),
            [*MEASURING, *TESTING, "RestartDeadUnits", "Patience", "Interruption"],
        ),
        (
            {"budget": 60.0, "pause_after": 5.0},
            ONES,
            (),
            [*MEASURING, *TESTING, "Patience", "TimeBudget", "PauseAfter", "Interruption",
             "SkippedPhases"],
        ),
        (
            {"pause_after": 0.0, "tensorboard": "t", "extensions": (Extension(),)},
            ONES,
            (),
            [*MEASURING, *TESTING, "Patience", "PauseAfter", "Interruption", "Extension",
             "TensorBoard"],
        ),
        (
            {"quiet": False},
            ONES,
            (),
            [*MEASURING, *TESTING, "Patience", "Interruption", "ProgressBar", "ProgressLines"],
        ),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_an_extension_in_its_place(
    monkeypatch, tmp_path, options, test, overrides, expected
):
    for name in ("compile_validation", "compile_test_metrics", "TensorBoard"):
        monkeypatch.setattr(session, name, lambda *given: None)
    monkeypatch.setattr(session, "TensorBoard", type("TensorBoard", (), {"__init__": noop}))
    recipe = Recipe.from_dict({"dataset": "own", "model": {"layers": [2]}}, overrides=overrides)
    data = TrainingData(ZEROS, ONES, test)
    for run in (None, RunDirectory(tmp_path / "run")):
        made = session._extensions(None, recipe, data, run, Options(**{"quiet": True, **options}))
        writing = [] if run is None else ["CsvLog", "Checkpoints"]
        names = [type(item).__name__ for item in made]
        assert [name for name in names if name not in writing] == expected
        assert [name for name in names if name in writing] == writing


def noop(self, *given):
    """Take anything."""
