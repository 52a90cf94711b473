"""Real kills at random moments, then a resumption that must end with the same bytes.

A case is one run, killed again and again until it is over. The pauses before the kills are drawn
from the seed; where they fall is up to the machine.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture.harness import Case, Failure, Group
from tests.torture.training import check_end, make_recipe, references, train

MOST = 40
RECIPE = make_recipe(3, (6, 4))


class Prepared(NamedTuple):
    """The uninterrupted run, and how many seconds it takes."""

    expected: dict[str, Any]
    seconds: float


def _prepare(folder: Path) -> Prepared:
    expected = references(folder, RECIPE)
    start = time.process_time()
    train(folder / "timed", RECIPE)
    return Prepared(expected[RECIPE.seed], time.process_time() - start)


def _attack(prepared: Prepared, case: Case) -> str:
    folder = case.folder / "run"
    for _ in range(case.random.randint(3, MOST)):
        ended, killed = _killed(folder, case.random, prepared.seconds)
        case.counts["kills"] += killed
        if ended:
            break
    train(folder, RECIPE)
    check_end(folder, prepared.expected)
    return "resumed"


def _killed(folder: Path, chance: random.Random, seconds: float) -> tuple[bool, bool]:
    """Train in a child that is killed within ``seconds``; returns (it ended, by a kill).

    Mostly the time begins when the child has read the state, else when it starts.
    """
    from_start, pause = chance.random() < 0.3, chance.uniform(0, seconds)
    listening, telling = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            train(folder, RECIPE, ready=lambda: os.write(telling, b"."))
            status = 0
        finally:
            os._exit(status)
    os.close(telling)
    if not from_start:
        os.read(listening, 1)
    os.close(listening)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False, True
    if os.WEXITSTATUS(status):
        raise Failure("a resumed run failed")
    return True, False


GROUP = Group("kills", 2.5, _prepare, _attack)
