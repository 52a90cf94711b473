"""Lines, bars and TensorBoard, with a fake loop."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from fake_loop import RECIPE, FakeClock, make_loop

from bihm_repro.errors import SetupError
from bihm_repro.training.extensions import display


def test_lines_are_rare_but_the_last_of_a_phase_is_there():
    clock, stream = FakeClock(), io.StringIO()
    lines = display.ProgressLines(5.0, stream, clock)
    rows = [{"train_log_p": -2.5, "valid_log_p": -3.25}]
    loop = make_loop(rows, epoch=1, updates=20, best_valid=-3.0, best_epoch=1)
    lines.before_phase(loop)
    clock.now += 2
    lines.between_epochs(loop)
    clock.now += 2
    lines.between_epochs(loop)
    loop.log.status.phase_stop = "enough"
    lines.between_epochs(loop)
    lines.after_phase(loop)
    said = stream.getvalue().splitlines()
    assert said[0] == "phase 1 of 3: K = 5, learning rate 0.3"
    assert said[1] == (
        "epoch 1, 20 updates, 0.0/s, 0:00:01: train 2.500, valid 3.250, "
        "best 3.000 (epoch 1, patience 0/3)"
    )
    assert len(said) == 4 and said[3] == "phase 1 over: enough"


def test_a_phase_that_goes_on_says_from_which_update_of_the_run():
    stream = io.StringIO()
    lines = display.ProgressLines(5.0, stream)
    lines.before_phase(make_loop(phase=1, updates=120, phase_updates=20))
    assert stream.getvalue().startswith("phase 2 of 3: ")
    assert stream.getvalue().endswith(", from update 120\n")


def test_the_bar_moves_by_the_batches_done_since_it_moved_last(monkeypatch):
    moves = []
    bar = SimpleNamespace(update=moves.append, set_postfix_str=lambda text: None)
    monkeypatch.setattr(display, "progress", lambda **options: bar)
    size = RECIPE.training.batch_size
    extension, loop = display.ProgressBar(50 * size), make_loop(batch=4)
    extension.before_epoch(loop)
    for batch in (5, 21, 22):
        loop.log.status.batch = batch
        extension.after_batch(loop)
    assert moves == [4, 1, 16, 1]


def test_tensorboard_gets_every_metric_or_says_what_is_missing(monkeypatch, tmp_path):
    written = []
    writer = SimpleNamespace(add_scalar=lambda *args: written.append(args), close=lambda: None)
    fake = SimpleNamespace(SummaryWriter=lambda folder: writer)
    monkeypatch.setattr(display.importlib, "import_module", lambda name: fake)
    loop = make_loop([{"epoch": 1, "updates": 20, "valid_log_p": -3.0}])
    display.TensorBoard(str(tmp_path)).between_epochs(loop)
    assert written == [("valid_log_p", -3.0, 20)]

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(display.importlib, "import_module", missing)
    with pytest.raises(SetupError, match="pip install tensorboardX"):
        display.TensorBoard(str(tmp_path))
