"""Recipes: defaults of the paper, exact error lines, overrides, and a lossless round trip."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bihm_repro.errors import InputError
from bihm_repro.files import parse_toml
from bihm_repro.models.registry import kinds
from bihm_repro.recipes.recipe import SECTIONS, InitialRecipe, Phase, Recipe
from bihm_repro.recipes.template import template


def recipe(*overrides, **content):
    content = {"dataset": "bars", "model": {"layers": [4, 2]}, **content}
    return Recipe.from_dict(content, "r.toml", overrides)


def error_of(*overrides, **content):
    with pytest.raises(InputError) as info:
        recipe(*overrides, **content)
    return str(info.value)


def test_the_defaults_are_the_papers():
    made = recipe()
    training = made.training
    assert (training.step_rule, training.batch_size, training.l1) == ("adam", 100, 1e-3)
    assert training.control_variate and made.model.bias == -1.0
    assert [(p.samples, p.learning_rate, p.patience, p.max_epochs) for p in made.phases] == [
        (10, 1e-3, 10, 10000),
        (100, 3e-4, 10, 10000),
    ]


LIMITS = {
    "seed": (0, 0, -1),
    "model.weights_scale": (0.1, 1e-9, 0),
    "model.bias": (-1.0, -1e9, None),
    "model.nade_hidden": (100, 1, 0),
    "training.batch_size": (100, 1, 0),
    "training.l1": (1e-3, 0, -1e-9),
    "training.l2": (0.0, 0, -1e-9),
    "training.sleep": (0.0, 0, -1e-9),
    "training.clip_norm": (0.0, 0, -1e-9),
    "training.l1_levels": (None, 0, -1),
    "training.total_variation": (0.0, 0, -1e-9),
    "phases.0.samples": (10, 1, 0),
    "phases.0.learning_rate": (1e-3, 1e-9, 0),
    "phases.0.patience": (10, 1, 0),
    "phases.0.max_epochs": (10000, 1, 0),
    "phases.0.batch_size": (None, 1, 0),
    "phases.0.l1": (None, 0, -1e-9),
    "phases.0.l1_levels": (None, 0, -1),
    "phases.0.total_variation": (None, 0, -1e-9),
    "phases.0.sleep": (None, 0, -1e-9),
    "phases.0.above": (0, 0, -1),
    "phases.0.average_over": (None, 2, 1),
    "phases.0.valid_samples": (None, 1, 0),
    "monitor.valid_samples": (10, 1, 0),
    "monitor.every": (1, 1, 0),
    "monitor.test_every": (10, 0, -1),
    "monitor.test_examples": (1000, 0, -1),
    "monitor.z_samples": (10000, 0, -1),
    "monitor.checkpoint_seconds": (120.0, 0, -1e-9),
    "monitor.units_every": (10, 0, -1),
    "evaluation.z_samples": (1000000, 0, -1),
    "evaluation.z_inner": (1, 1, 0),
    "evaluation.ess_samples": (10000, 0, -1),
    "evaluation.ess_examples": (1000, 0, -1),
}
"""Of each number: its default, the least value that is allowed, and one that is not."""
OTHERS = {
    "title": "", "dataset": "bars", "model.kind": "bihm", "model.layers": (4, 2),
    "model.hidden": (), "model.activation": "relu", "model.weights": "glorot-over-fan-in",
    "model.visible_bias": "constant", "model.p_layer": "bernoulli", "model.q_layer": "bernoulli",
    "model.prior": "bernoulli", "training.control_variate": True, "training.step_rule": "adam",
    "training.centred": False, "training.l1_side": "both", "training.l1_step": "gradient",
    "phases.0.l1_side": None, "phases.0.learning_rates": (), "phases.0.restart_dead": False,
    "phases.0.restart_above": False,
    "monitor.test_samples": (1, 10, 100, 1000), "evaluation.samples": (1, 10, 100, 1000),
    "initial.source": "", "initial.fingerprint": "",
}  # fmt: skip
LATER = {
    "model.visible_bias", "model.p_layer", "model.q_layer", "model.prior", "model.nade_hidden",
    "training.sleep", "training.centred", "training.l1_levels", "training.l1_side",
    "training.l1_step", "phases.0.l1_levels", "phases.0.l1_side",
    "training.total_variation", "phases.0.total_variation", "phases.0.restart_dead",
    "phases.0.sleep", "phases.0.above", "phases.0.restart_above",
    "monitor.units_every", "initial.fingerprint",
}  # fmt: skip
NOT_DECIDING = {
    "title", "monitor.checkpoint_seconds", "monitor.units_every", "initial.source",
    *(name for name in {**LIMITS, **OTHERS} if name.startswith("evaluation.")),
}  # fmt: skip
COMPILED = {
    "phases.0.samples", "phases.0.l1", "phases.0.l1_levels", "phases.0.l1_side",
    "phases.0.average_over", "phases.0.total_variation", "phases.0.sleep", "phases.0.above",
}  # fmt: skip


def settings_of(made):
    """Every setting of a recipe by its name, its value and its declaration."""
    for owner, path in [(made, ""), *((getattr(made, name), f"{name}.") for name in SECTIONS),
                        (made.phases[0], "phases.0.")]:  # fmt: skip
        for item in dataclasses.fields(owner):
            if "setting" in item.metadata:
                yield path + item.name, getattr(owner, item.name), item.metadata


def test_every_setting_has_its_default_and_its_place_in_the_fingerprint():
    """To change one of these changes the meaning of recipes and runs that exist."""
    declared = list(settings_of(recipe()))
    values = {name: value for name, value, _ in declared}
    assert values == {**{name: limit[0] for name, limit in LIMITS.items()}, **OTHERS}
    assert {name for name, _, facts in declared if facts["later"]} == LATER
    assert {name for name, _, facts in declared if not facts["decides"]} == NOT_DECIDING
    phase = {name for name, _, facts in declared if name.startswith("phases.")}
    assert {name for name, _, facts in declared if facts["compiled"]} & phase == COMPILED


@pytest.mark.parametrize("name", LIMITS)
def test_a_number_is_allowed_down_to_its_limit(name):
    _, least, refused = LIMITS[name]
    found = {found: value for found, value, _ in settings_of(recipe(f"{name}={least!r}"))}
    assert found[name] == least
    if refused is not None:
        assert f"{name} = {refused!r}: must be" in error_of(f"{name}={refused!r}")


@pytest.mark.parametrize("name", ["title", "initial.source", "initial.fingerprint"])
def test_a_text_may_be_empty_where_it_is_optional(name):
    assert recipe(f'{name}=""') == recipe()


def test_a_schedule_ends_at_its_last_rate():
    phase = Phase(learning_rates=((1.0, 2), (0.5, 1)), max_epochs=10)
    assert [phase.rate_at(epoch) for epoch in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert phase.last_epoch == 3 and Phase(max_epochs=7).last_epoch == 7


def test_a_rate_may_be_small_and_last_one_epoch():
    assert recipe("phases.0.learning_rates=[[0.5,1]]").phases[0].learning_rates == ((0.5, 1),)


def test_overrides_reach_every_section():
    made = recipe(
        "model.layers=[3]",
        "dataset=adult",
        "phases.1.samples=50",
        "training.l1=1",
        "title=a name",
        "seed=7",
    )
    assert made.model.layers == (3,) and made.dataset == "adult" and made.seed == 7
    assert made.phases[0].samples == 10 and made.phases[1].samples == 50
    assert made.training.l1 == 1.0 and isinstance(made.training.l1, float)
    assert made.title == "a name"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "model.kind=bihn",
            "r.toml: model.kind = 'bihn': must be one of KINDS (did you mean 'bihm'?)",
        ),
        ("seed=-1", "r.toml: seed = -1: must be an integer, 0 or more and below 2**63"),
        ("training.l1=nan", "r.toml: training.l1 = nan: must be a finite number, 0 or more"),
        (
            "training.control_variate=1",
            "r.toml: training.control_variate = 1: must be true or false",
        ),
        (
            "phases.0.learning_rate=0",
            "r.toml: phases.0.learning_rate = 0: must be a finite number above 0",
        ),
        (
            "phases.0.average_over=1",
            "r.toml: phases.0.average_over = 1: must be an integer, 2 or more and below 2**63",
        ),
        (
            "phases.0.learning_rates=[[1,2],[3]]",
            "r.toml: phases.0.learning_rates = [[1, 2], [3]]: "
            "must be a list of [learning rate, epochs] pairs",
        ),
        (
            'phases.0.learning_rates=""',
            "r.toml: phases.0.learning_rates = '': must be a list of [learning rate, epochs] pairs",
        ),
        (
            "phases.0.learning_rates=[[0.0,2]]",
            "r.toml: phases.0.learning_rates = [[0.0, 2]]: "
            "must be a list of [learning rate, epochs] pairs",
        ),
        (
            "phases.0.learning_rates=[[1.0,0]]",
            "r.toml: phases.0.learning_rates = [[1.0, 0]]: "
            "must be a list of [learning rate, epochs] pairs",
        ),
        (
            "model.layers=[4,true]",
            "r.toml: model.layers = [4, True]: must be a list of integers, "
            "each 1 or more (latent layer sizes from the data up)",
        ),
        (
            "model.hidden=[5]",
            "r.toml: model.hidden = [5]: a bihm model does not have this setting; leave it out",
        ),
        (
            "phases.2.samples=3",
            "--set phases.2.samples=3: there is no phase 2; the recipe's phases are 0 to 1",
        ),
        (
            "phases.0=3",
            "--set phases.0=3: say which setting of phase 0, such as phases.0.samples=10",
        ),
        ("seed.x=1", "--set seed.x=1: seed is a value, not a section"),
        ("layers", "--set layers: write it as section.field=value, such as model.layers=[200,100]"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(override, message):
    assert error_of(override, seed=0) == message.replace("KINDS", ", ".join(kinds()))


def test_an_unknown_setting_is_named_with_its_neighbour():
    assert error_of("modle.kind=3") == (
        "r.toml: modle: unknown setting (did you mean 'model'?); known here: dataset, seed, "
        "title, model, training, phases, monitor, evaluation, initial"
    )
    assert "training.batchsize: unknown setting (did you mean 'batch_size'?)" in error_of(
        "training.batchsize=3"
    )


def test_what_is_missing_is_said():
    assert error_of(dataset="").startswith("r.toml: dataset = '': must be")
    assert error_of(model={}).startswith("r.toml: model.layers is missing")
    with pytest.raises(InputError, match="r.toml: dataset is missing"):
        Recipe.from_dict({"model": {"layers": [3]}}, "r.toml")
    assert error_of(phases=[]) == "r.toml: phases = []: must be one or more [[phases]] tables"
    assert error_of(model=3) == "r.toml: model = 3: must be a table of settings"


def test_nested_hidden_layers_need_a_list_a_layer():
    assert "has 1 lists" in error_of("model.kind=iwae", "model.hidden=[[5]]")
    assert recipe("model.kind=iwae", "model.hidden=[[5],[3,2]]").model.hidden == ((5,), (3, 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"layers = [", "is not valid TOML"),
        (None, "there is no such recipe"),
        (b"title = '\xff'", "is not UTF-8 text"),
        (b"a = " + b"[" * 9000, "is not valid TOML"),
        (b"seed = " + b"9" * 5000, "(is not valid TOML|seed = 9)"),
        (b"extends = 3", "extends = 3: must be the name of a recipe"),
        (b"extends = 'mnits'", r"extends = 'mnits': there is no such recipe .*mean 'mnist'"),
    ],
    ids=["toml", "missing", "latin-1", "nested", "digits", "type", "unknown"],
)
def test_an_unreadable_recipe_is_named(content, message, tmp_path):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"mine.toml: {message}"):
        Recipe.load(path)


@pytest.mark.parametrize(
    "title", ["del \x7f", "esc \x1b[31m", 'quote " \\ back', "tab \t", "é\u2028"]
)
def test_any_title_survives_being_frozen(title, tmp_path):
    made = recipe(title=title)
    (tmp_path / "recipe.toml").write_text(made.to_toml(), encoding="utf-8")
    assert Recipe.load(tmp_path / "recipe.toml") == made


def test_a_title_that_utf8_cannot_hold_is_refused():
    assert "title = 'x\\udc80': must be a line of text" in error_of(title="x\udc80")


def test_the_template_is_a_recipe_and_shows_every_setting():
    text = template("mine")
    content = parse_toml(text, "template")
    assert Recipe.from_dict(content).phases == (
        Phase(learning_rate=1e-2, patience=30),
        Phase(patience=30),
    )
    settings = {
        item.name
        for part in (*SECTIONS.values(), Phase)
        if part is not InitialRecipe
        for item in dataclasses.fields(part)
    }
    assert settings <= set(re.findall(r"^(?:# )?(\w+) =", text, re.MULTILINE))
    uncommented = re.sub(r"^# (\w+ = \S)", r"\1", text, flags=re.MULTILINE)
    assert Recipe.from_dict(parse_toml(uncommented, "template")).to_dict() == (
        Recipe.from_dict(content).to_dict()
    )


@pytest.mark.parametrize("content", [3, "ab", [1], None])
def test_a_recipe_that_is_no_table_is_one_line(content):
    with pytest.raises(InputError, match="mine: a recipe is a table of settings, not"):
        Recipe.from_dict(content, "mine")
