"""Steps called with several inputs in a row, with a step and a clock that are moved by hand."""

from __future__ import annotations

import pytest

from bihm_repro.engine.step_functions import Steps


class Device:
    """A step takes ``cost`` seconds on the device, none on the host; fetching waits for all."""

    def __init__(self):
        self.now, self.cost, self.waiting, self.events = 0.0, 1.0, 0, []

    def step(self, x):
        self.waiting += 1
        self.events.append(x)
        return [x, -x]

    def fetch(self, values):
        self.now += self.cost * self.waiting
        self.waiting = 0
        self.events.append("fetch")
        return [[f"{one}", f"{other}"] for one, other in values]

    def clock(self):
        return self.now

    def steps(self, **options):
        return Steps(self.step, self.fetch, clock=self.clock, **options)


def test_one_by_one_calls_in_order_and_asks_for_single_inputs():
    seen = []
    steps = Steps(lambda x: seen.append(x) or [x + 1])
    assert steps([4, 2, 7]) == [[5], [3], [8]] and seen == [4, 2, 7]
    assert steps.group_size == 1


def test_a_group_is_handed_over_in_order_and_waited_for_once():
    device = Device()
    assert device.steps()([3, 1, 2]) == [["3", "-3"], ["1", "-1"], ["2", "-2"]]
    assert device.events == [3, 1, 2, "fetch"]


def test_groups_grow_to_what_fills_the_time():
    device = Device()
    device.cost = 0.01
    steps = device.steps(limit=16, seconds=0.1001)
    sizes = []
    for _ in range(6):
        sizes.append(steps.group_size)
        steps([0] * steps.group_size)
    assert sizes == [1, 2, 4, 8, 10, 10]


def test_groups_have_a_limit_and_shrink_at_once_when_steps_are_slow():
    device = Device()
    device.cost = 1e-6
    steps = device.steps(limit=6, seconds=0.1)
    for _ in range(5):
        steps([0] * steps.group_size)
    assert steps.group_size == 6
    device.cost = 0.03
    steps([0] * 6)
    assert steps.group_size == 3
    device.cost = 5.0
    steps([0])
    assert steps.group_size == 1


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_one_cheap_step_is_not_taken_for_the_price_of_all(cost):
    """After the short batch that ends an epoch, the next group has two batches at most."""
    device = Device()
    device.cost = cost
    steps = device.steps(limit=100, seconds=10.0)
    steps([0])
    assert steps.group_size == 2
