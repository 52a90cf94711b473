"""The harness of the attack: what it must report as a failure, and that all groups can be run."""

from __future__ import annotations

import importlib
import os
import signal

import pytest

from bihm_repro.errors import InputError
from tests.torture import harness
from tests.torture.__main__ import MODULES
from tests.torture.harness import Failure, Group, run_group


def report(attack, only=None):
    """Run three cases of ``attack``, or the case ``only``."""
    group = Group("own", 1.0, lambda folder: None, attack, last=lambda prepared: 3)
    return run_group(group, "0", 60.0, only)


@pytest.mark.parametrize("name", MODULES)
def test_every_group_can_be_imported(name):
    assert importlib.import_module(f"tests.torture.{MODULES[name]}").GROUP.name == name


def test_success_and_refusals_are_no_failures():
    def attack(prepared, case):
        if case.number == 1:
            raise InputError("x.toml: is bad")
        return "accepted"

    found = report(attack)
    assert found.cases == 3 and not found.failures
    assert found.outcomes == {"accepted": 2, "refused": 1}


def crash(case):
    os.kill(os.getpid(), signal.SIGKILL)


def raise_a_traceback(case):
    raise KeyError("x")


def find_something(case):
    raise Failure("other bytes")


def say_nothing(case):
    raise InputError("")


def run_out_of_memory(case):
    try:
        bytearray(8 << 30)
    except MemoryError as error:
        raise InputError("x.csv: not readable") from error


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (crash, "ended with status 9"),
        (raise_a_traceback, "KeyError"),
        (find_something, "other bytes"),
        (say_nothing, "not one line"),
        (run_out_of_memory, "refused for a MemoryError"),
    ],
)
def test_a_bad_end_is_reported_with_its_case_and_the_others_go_on(act, said):
    def attack(prepared, case):
        if case.number == 1:
            act(case)
        return "accepted"

    found = report(attack)
    assert found.cases == 3 and found.outcomes["accepted"] == 2
    assert [number for number, _ in found.failures] == [1] and said in found.failures[0][1]


def test_a_hang_is_reported(monkeypatch):
    import time

    monkeypatch.setattr(harness, "HANG_SECONDS", 0.2)
    found = report(lambda prepared, case: time.sleep(60), only=2)
    assert [number for number, _ in found.failures] == [2] and "no answer" in found.failures[0][1]


def test_a_case_has_the_same_random_numbers_whatever_ran_before():
    def attack(prepared, case):
        case.counts[case.random.randrange(10**9)] += case.number == 2
        return "accepted"

    alone, among = report(attack, only=2).outcomes, report(attack).outcomes
    del alone["accepted"], among["accepted"]
    assert len(+alone) == 1 and +alone == +among
