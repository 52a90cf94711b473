"""Agreement of several hosts, with the messages of the others made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions import hosts
from bihm_repro.training.extensions.hosts import Agreement
from bihm_repro.training.log import TrainingLog

RECIPE = Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}})


class Others:
    """Host 0 or 1 of two: what the other one sends is ``changes`` to what is sent here."""

    def __init__(self, changes=None, first=True):
        self.changes, self.first, self.left = changes or {}, first, 0

    def exchange(self, facts):
        both = [facts, {**facts, **self.changes}]
        return both if self.first else both[::-1]

    def share(self, record):
        return {**record, "shared": True}

    def share_arrays(self, arrays):
        return {name: value + 1 for name, value in arrays.items()}

    def leave(self):
        self.left += 1


def agreement(others):
    made = Agreement.__new__(Agreement)  # the constructor imports JAX
    made._hosts, made.facts = others, {"data": "f", "engine": "e"}
    return made


def make_loop(**changes):
    log = TrainingLog()
    for name, value in changes.items():
        setattr(log if hasattr(log, name) else log.status, name, value)
    return SimpleNamespace(
        log=log,
        recipe=RECIPE,
        update=SimpleNamespace(group_size=4),
        model=SimpleNamespace(get_values=lambda: {"w": np.zeros(2)}),
        rule_state=None,
        best=None,
        resume=lambda log, arrays: pytest.fail("host 0 goes on from its own state"),
    )


@pytest.mark.parametrize("name", ["recipe", "data", "engine", "code"])
def test_hosts_with_another_recipe_data_or_code_are_refused(name):
    with pytest.raises(InputError, match=f"host 1 has another {name} than host 0"):
        agreement(Others({name: "x"})).before_training(make_loop())
    agreement(Others()).before_training(make_loop())


def test_only_host_0_needs_the_file_of_the_initial_parameters():
    sent = []
    for source in ("", "results/other"):
        loop = make_loop()
        loop.recipe = replace(RECIPE, initial=replace(RECIPE.initial, fingerprint=source))
        others = Others()
        others.exchange = lambda facts: sent.append(facts) or [facts, facts]
        agreement(others).before_training(loop)
    assert sent[0] == sent[1] and sent[0]["recipe"] == RECIPE.fingerprint()


def test_other_hosts_resume_from_the_state_of_host_0(monkeypatch):
    monkeypatch.setattr(hosts, "requested", lambda: SimpleNamespace(host_id=1))
    monkeypatch.setattr(hosts.TrainingLog, "from_record", lambda record: record)
    loop, found = make_loop(), []
    loop.resume = lambda *given: found.append(given)
    agreement(Others()).before_training(loop)
    [(record, groups)] = found
    assert record["shared"] and groups["parameter"]["w"].tolist() == [1, 1]


@pytest.mark.parametrize("event", ["after_batch", "between_epochs"])
def test_a_pause_of_any_host_is_one_of_all(event):
    loop = make_loop()
    getattr(agreement(Others({"pause": "interrupted"})), event)(loop)
    assert loop.log.pause == "interrupted" and not loop.log.measure_first
    assert loop.log.off_schedule == ""
    loop = make_loop()
    changes = {"pause": "the time budget is used up", "measure_first": True}
    getattr(agreement(Others(changes)), event)(loop)
    assert loop.log.measure_first is True and loop.log.off_schedule == "cut"


def test_without_a_pause_nothing_is_measured_first():
    loop = make_loop()
    agreement(Others({"measure_first": True})).after_batch(loop)
    assert (loop.log.pause, loop.log.measure_first, loop.log.off_schedule) == ("", False, "")


def test_host_0_decides_where_a_phase_ends_and_how_large_groups_are():
    loop = make_loop(phase_stop="patience")
    loop.update.group_size = 7
    first = {"stop": "10 epochs", "cut": True, "off_schedule": "skipped", "group": 3}
    agreement(Others(first, first=False)).after_batch(loop)
    status = loop.log.status
    assert (status.phase_stop, status.cut_by_budget) == ("10 epochs", True)
    assert (loop.log.off_schedule, loop.update.group_size) == ("skipped", 3)


def test_the_first_pause_counts_and_hosts_disconnect_at_the_end():
    loop, others = make_loop(pause="asked to end"), Others({"pause": "interrupted"})
    together = agreement(others)
    together.after_batch(loop)
    assert loop.log.pause == "asked to end"
    together.after_training(loop)
    assert others.left == 1


def test_the_code_is_that_of_every_source_file(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.h").write_text("2")
    (tmp_path / "notes.txt").write_text("3")
    monkeypatch.setattr(hosts.bihm_repro, "__file__", str(tmp_path / "__init__.py"))
    found = [hosts.code_fingerprint()]
    for name in ("notes.txt", "a.py", "b.h"):
        (tmp_path / name).write_text("other")
        found.append(hosts.code_fingerprint())
    assert found[0] == found[1] and len(set(found)) == 3
    assert all(len(text) == 16 for text in found)
