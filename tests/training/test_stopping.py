"""When training stops: epochs, patience, time, signals, metrics that are not finite."""

from __future__ import annotations

import os
import signal

import pytest
from fake_loop import FakeClock, make_loop

from bihm_repro.errors import InputError
from bihm_repro.training.extensions.stopping import (
    EpochLimit,
    FiniteMetrics,
    Interruption,
    Patience,
    PauseAfter,
)
from bihm_repro.training.log import TrainingLog

# -- monitoring -----------------------------------------------------------------------------------


# -- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "stops"),
    [({"epoch": 18}, False), ({"epoch": 19}, True), ({"epoch": 25, "phase_start": 10}, False)],
)
def test_the_epoch_limit_counts_the_epochs_of_the_phase(status, stops):
    loop = make_loop(**status)
    EpochLimit().after_epoch(loop)
    assert loop.log.status.phase_stop == ("20 epochs" if stops else "")


@pytest.mark.parametrize(
    ("status", "stops"),
    [
        ({"epoch": 9, "best_epoch": 8}, False),
        ({"epoch": 9, "best_epoch": 7}, True),
        ({"epoch": 9, "best_epoch": 2, "phase_start": 8}, False),
        ({"epoch": 10, "best_epoch": 2, "phase_start": 8}, True),
    ],
)
def test_patience_counts_from_the_best_epoch_of_the_phase(status, stops):
    loop = make_loop(**status)
    Patience().after_epoch(loop)
    assert loop.log.status.phase_stop == ""  # nothing was measured
    loop.log.row["valid_log_p"] = -3.0
    Patience().after_epoch(loop)
    assert loop.log.status.phase_stop == ("no better validation log p in 3 epochs" if stops else "")


def test_the_first_reason_to_stop_is_kept():
    log = TrainingLog()
    log.stop_phase("one")
    log.stop_phase("two")
    assert log.status.phase_stop == "one"


def test_pause_after_leaves_the_epoch_as_it_is():
    clock = FakeClock()
    extension, loop = PauseAfter(10.0, clock), make_loop()
    extension.after_batch(loop)
    assert not loop.log.pause
    clock.now += 10
    extension.after_batch(loop)
    assert loop.log.pause and not loop.log.measure_first


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "asked to end")]
)
def test_a_signal_becomes_a_pause_and_handlers_come_back(number, said):
    before = signal.getsignal(number)
    extension, loop = Interruption(), make_loop()
    extension.before_training(loop)
    try:
        extension.after_batch(loop)
        assert not loop.log.pause
        os.kill(os.getpid(), number)
        extension.between_epochs(loop)
        assert loop.log.pause == said
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    finally:
        extension.close(loop)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_bad_update_is_named_with_what_is_kept(bad):
    loop = make_loop(updates=41, epoch=2, best_epoch=2, sums={"log_p": bad})
    loop.best = {}
    with pytest.raises(
        InputError,
        match="training log-likelihood is not a finite number by "
        "update 41.*last good state.*clip_norm",
    ):
        FiniteMetrics().after_batch(loop)
    FiniteMetrics().after_batch(make_loop(sums={"log_p": -1e30}))


# -- saving ---------------------------------------------------------------------------------------


# -- display and budgets --------------------------------------------------------------------------
