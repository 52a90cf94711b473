"""The main loop with a model that trains nothing: order of events, batches, phases, resumption."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.checkpoint import divided
from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.saving import pack
from bihm_repro.training.extensions.stopping import EpochLimit
from bihm_repro.training.log import TrainingLog
from bihm_repro.training.main_loop import MainLoop, batch_groups


class FakeModel:
    """One number, which every update moves."""

    def __init__(self):
        self.value = np.zeros(1)

    def get_values(self):
        return {"value": self.value.copy()}

    def set_values(self, values):
        self.value = np.array(values["value"])


class FakeUpdate:
    """Adds the batch to the model, and counts its own steps as a step rule would."""

    averages: dict = {}

    def __init__(self, model, counter, group_size=1):
        self.model, self.counter, self.count, self.learning_rate = model, counter, 0, None
        self.group_size, self.groups = group_size, []

    def steps(self, batches):
        self.groups.append([x[0, 0] for x in batches])
        return [self(x) for x in batches]

    def __call__(self, x):
        self.count += 1
        self.counter += 3
        self.model.value += self.learning_rate * x.sum() + self.count
        return {"log_p": -float(x.sum())}

    def get_state(self):
        return {"count": np.array(self.count)}

    def set_state(self, values):
        self.count = int(values["count"])


class FakeStream:
    """Three batches an epoch, told apart by their values."""

    def epoch(self, epoch, start=0):
        for batch in range(start, 3):
            yield np.full((2, 1), epoch + batch / 10)


class Recorder(Extension):
    """Writes down every event; stops phases and pauses on request."""

    def __init__(self, pause_at=None, best_at=()):
        self.events, self.pause_at, self.best_at = [], pause_at, best_at

    def after_batch(self, loop):
        self.events.append(("batch", loop.log.status.epoch, loop.log.status.batch))
        if loop.log.status.updates == self.pause_at:
            loop.log.request_pause("test")

    def after_epoch(self, loop):
        if loop.log.status.epoch in self.best_at:
            loop.best = loop.model.get_values()


def _note(name):
    def event(self, loop):
        self.events.append(name)

    return event


for _name in (
    "before_training",
    "before_phase",
    "between_epochs",
    "after_phase",
    "between_phases",
    "after_training",
    "close",
):
    setattr(Recorder, _name, _note(_name))


def make_recipe(*epochs):
    return Recipe.from_dict(
        {
            "dataset": "none",
            "model": {"layers": [1]},
            "phases": [
                {"samples": 1, "learning_rate": 1.0 / (index + 1), "max_epochs": count}
                for index, count in enumerate(epochs)
            ],
        }
    )


def make_loop(recorder, *epochs, group_size=1, stream=None):
    model = FakeModel()
    return MainLoop(
        model,
        make_recipe(*epochs),
        lambda phase, counter: FakeUpdate(model, counter, group_size),
        lambda phase: stream or FakeStream(),
        [EpochLimit(), recorder],
    )


def test_the_order_of_events():
    recorder = Recorder()
    make_loop(recorder, 1, 1).run()
    batches = [[("batch", epoch, number) for number in (1, 2, 3)] for epoch in (0, 1)]
    assert recorder.events == [
        "before_training",
        "before_phase",
        *batches[0],
        "between_epochs",
        "after_phase",
        "between_phases",
        "before_phase",
        *batches[1],
        "between_epochs",
        "after_phase",
        "after_training",
        "close",
    ]


def test_rows_hold_means_over_the_epochs_examples():
    log = make_loop(Recorder(), 2).run()
    assert [row["epoch"] for row in log.rows] == [1, 2]
    assert [row["updates"] for row in log.rows] == [3, 6]
    # Two examples a batch, each of value epoch + batch / 10.
    assert [row["train_log_p"] for row in log.rows] == pytest.approx([-0.1, -1.1])
    assert log.status.finished and log.status.draw == 6 * 3


def test_a_phase_starts_from_the_best_parameters_with_a_fresh_rule():
    recorder = Recorder(best_at=[0])
    loop = make_loop(recorder, 2, 1)
    after_first = FakeModel()
    update = FakeUpdate(after_first, 0)
    update.learning_rate = 1.0
    for x in FakeStream().epoch(0):
        update(x)
    fresh = FakeUpdate(after_first, 0)
    fresh.learning_rate = 0.5
    for x in FakeStream().epoch(2):
        fresh(x)
    recorder_of_end = loop.run()
    assert recorder_of_end.status.updates == 9
    # The last phase leaves the best parameters in the model; they are those of epoch 1.
    first_epoch = FakeModel()
    update = FakeUpdate(first_epoch, 0)
    update.learning_rate = 1.0
    for x in FakeStream().epoch(0):
        update(x)
    np.testing.assert_array_equal(loop.model.value, first_epoch.value)
    loop = make_loop(Recorder(best_at=[0, 2]), 2, 1)
    loop.run()
    np.testing.assert_allclose(loop.model.value, after_first.value)


def test_running_means_are_measured_and_kept_but_not_trained():
    class Averaging(FakeUpdate):
        averages = {"value": np.array([-7.0])}

    recorder = Recorder(best_at=[0])
    loop = make_loop(recorder, 2)
    loop._compile_phase = lambda phase, counter: Averaging(loop.model, counter)
    plain = make_loop(Recorder(), 2)
    latest = []
    for each in (loop, plain):
        recorder = each.extensions[-1]
        recorder.after_phase = lambda given: None
        recorder.between_epochs = lambda given: latest.append(given.model.get_values()["value"])
        each.run()
    assert loop.best["value"] == [-7.0] and loop.model.value == [-7.0]
    # Updates went on from the latest parameters, as they do without means.
    assert len(latest) == 4 and latest[:2] == latest[2:] and latest[0] != latest[1]


def test_a_schedule_sets_the_rate_of_each_epoch():
    recorder = Recorder()
    loop = make_loop(recorder, 1)
    content = loop.recipe.to_dict()
    content["phases"][0].update(max_epochs=3, learning_rates=[[4.0, 1], [2.0, 2]])
    loop.recipe = Recipe.from_dict(content)
    assert [row["learning_rate"] for row in loop.run().rows] == [4.0, 2.0, 2.0]


@pytest.mark.parametrize("moment", range(1, 12))
def test_left_and_entered_again_at_any_update_it_ends_the_same(moment):
    whole = make_loop(Recorder(best_at=range(9)), 2, 2)
    whole_log = whole.run()
    first = make_loop(Recorder(pause_at=moment, best_at=range(9)), 2, 2)
    log = first.run()
    assert log.pause == "test" and log.status.updates == moment
    arrays, record = pack(first)
    second = make_loop(Recorder(best_at=range(9)), 2, 2)
    second.resume(TrainingLog.from_record(record), divided(arrays))
    second_log = second.run()
    np.testing.assert_array_equal(second.model.value, whole.model.value)
    assert second_log.status.draw == whole_log.status.draw == 36
    assert without_seconds(second_log) == without_seconds(whole_log)


def without_seconds(log: TrainingLog):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in log.rows]


class LongStream:
    """Seven batches an epoch, the last one of a single row."""

    def epoch(self, epoch, start=0):
        for batch in range(start, 7):
            yield np.full((1 if batch == 6 else 2, 1), epoch + batch / 10)


@pytest.mark.parametrize(
    ("group_size", "ends"), [(1, (1, 2, 3, 4, 5, 6, 7)), (3, (3, 6, 7)), (4, (4, 7)), (100, (7,))]
)
def test_an_update_gets_group_size_batches_per_call(group_size, ends):
    """In order, none left out at an epoch's end; what comes out is as with single ones."""
    single, recorder = make_loop(Recorder(), 2, stream=LongStream()), Recorder()
    loop = make_loop(recorder, 2, group_size=group_size, stream=LongStream())
    expected, log = single.run(), loop.run()
    assert [event for event in recorder.events if event[0] == "batch"] == [
        ("batch", epoch, end) for epoch in (0, 1) for end in ends
    ]
    assert [len(group) for group in loop.update.groups] == 2 * list(np.diff((0, *ends)))
    assert sum(loop.update.groups, []) == sum(single.update.groups, [])
    np.testing.assert_array_equal(loop.model.value, single.model.value)
    assert without_seconds(log) == without_seconds(expected)
    assert log.rows[0]["train_log_p"] == pytest.approx(-(2 * 1.5 + 0.6) / 13)
    assert log.status.updates == 14 and log.status.draw == 14 * 3


@pytest.mark.parametrize("moment", [3, 6, 7, 10, 13])
def test_left_after_a_group_and_entered_with_other_groups_it_ends_the_same(moment):
    whole = make_loop(Recorder(), 2, group_size=4, stream=LongStream())
    whole_log = whole.run()
    first = make_loop(Recorder(pause_at=moment), 2, group_size=3, stream=LongStream())
    assert first.run().status.updates == moment
    arrays, record = pack(first)
    second = make_loop(Recorder(), 2, group_size=5, stream=LongStream())
    second.resume(TrainingLog.from_record(record), divided(arrays))
    second_log = second.run()
    np.testing.assert_array_equal(second.model.value, whole.model.value)
    assert second_log.status.draw == whole_log.status.draw == 14 * 3
    assert without_seconds(second_log) == without_seconds(whole_log)


def test_each_group_is_read_when_it_is_wanted_and_as_large_as_is_asked_then():
    update, read = FakeUpdate(FakeModel(), 0), []
    made = batch_groups((read.append(i) or i for i in range(8)), update)
    for group_size, group in ((1, [0]), (3, [1, 2, 3]), (2, [4, 5]), (5, [6, 7])):
        update.group_size = group_size
        assert next(made) == group
        assert len(read) == group[-1] + 1
    assert list(made) == []


def test_a_pause_with_measuring_counts_the_short_epoch():
    class Stop(Extension):
        def after_batch(self, loop):
            if loop.log.status.updates == 2:
                loop.log.request_pause("budget", measure_first=True)

    recorder = Recorder()
    loop = make_loop(recorder, 5)
    loop.extensions.insert(0, Stop())
    log = loop.run()
    assert [row["updates"] for row in log.rows] == [2]
    assert not log.status.finished and log.status.batch == 0 and log.status.epoch == 1


def test_extensions_are_closed_when_one_of_them_fails():
    class Fails(Extension):
        def after_batch(self, loop):
            raise ValueError("broken")

    recorder = Recorder()
    loop = make_loop(recorder, 1)
    loop.extensions.append(Fails())
    with pytest.raises(ValueError, match="broken"):
        loop.run()
    assert recorder.events[-1] == "close" and "after_training" not in recorder.events
