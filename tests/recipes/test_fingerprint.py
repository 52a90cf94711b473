"""What decides the result of a recipe, and what does not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bihm_repro.recipes.fields import boolean, setting
from bihm_repro.recipes.recipe import Phase, Recipe

ROOT = Path(__file__).parents[2]


def recipe(*overrides, **content):
    content = {"dataset": "bars", "model": {"layers": [4, 2]}, **content}
    return Recipe.from_dict(content, "r.toml", overrides)


def test_the_fingerprint_follows_what_decides_the_result():
    base = recipe().fingerprint()
    same = [
        "title=x",
        "evaluation.samples=[5]",
        "monitor.checkpoint_seconds=1",
        "training.l1=0.001",
    ]
    assert {recipe(override).fingerprint() for override in same} == {base}
    others = [
        "seed=1",
        "training.l1=0.002",
        "phases.1.samples=99",
        "monitor.valid_samples=20",
        "phases.0.average_over=100",
    ]
    assert len({base, *(recipe(override).fingerprint() for override in others)}) == 1 + len(others)


def test_a_recipe_with_a_value_that_is_no_number_has_no_fingerprint():
    bad = dataclasses.replace(recipe().training, l1=float("nan"))
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        dataclasses.replace(recipe(), training=bad).fingerprint()


def test_differences_are_listed_by_name():
    assert recipe("seed=1", "phases.0.samples=5").differences(recipe()) == [
        "phases.0.samples: 5, not 10",
        "seed: 1, not 0",
    ]


@dataclasses.dataclass(frozen=True)
class Extended(Phase):
    """A phase as a later version might have it."""

    added: bool = setting(False, boolean(), later=True)


def test_a_setting_added_later_changes_no_fingerprint_at_its_default():
    phase = recipe().phases[0]
    old = dataclasses.replace(recipe(), phases=(phase,))
    values = dataclasses.asdict(phase)
    assert dataclasses.replace(old, phases=(Extended(**values),)).fingerprint() == (
        old.fingerprint()
    )
    changed = dataclasses.replace(old, phases=(Extended(**values, added=True),))
    assert changed.fingerprint() != old.fingerprint()
    assert changed.changes(dataclasses.replace(old, phases=(Extended(**values),))) == {
        "phases.0.added": (True, False)
    }
    assert recipe("initial.source=results/x").fingerprint() == recipe().fingerprint()
    assert recipe("initial.fingerprint=ab").fingerprint() != recipe().fingerprint()


def test_the_fingerprint_of_every_committed_run_is_what_its_files_say():
    runs = [path for path in (ROOT / "results").glob("*/evaluation.json")]
    assert len(runs) > 20
    for path in runs:
        recorded = json.loads(path.read_text())["recipe_fingerprint"]
        assert Recipe.load(path.parent / "recipe.toml").fingerprint() == recorded, path


def test_phases_share_a_compiled_update_where_only_the_schedule_differs():
    one = Phase(learning_rate=1.0, patience=3, max_epochs=4, batch_size=5, valid_samples=6)
    assert one.compiled_key == Phase().compiled_key
    keys = {
        Phase(**change).compiled_key
        for change in ({}, {"samples": 3}, {"l1": 0.5}, {"average_over": 9})
    }
    assert len(keys) == 4
    assert Extended(added=True).compiled_key != Extended().compiled_key
