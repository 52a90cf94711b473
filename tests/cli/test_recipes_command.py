"""``bihm recipes``: the list, one recipe complete, and a template."""

from __future__ import annotations

import pytest

from bihm_repro.cli.main import main
from bihm_repro.recipes.extends import recipe_names
from bihm_repro.recipes.recipe import Recipe, find_recipe


def test_the_list_has_a_line_for_each_recipe_outside_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == recipe_names() and "rws/mnist" in recipe_names()
    width = max(map(len, recipe_names()))
    assert f"{'mushrooms':<{width}}  Mushrooms (bihm 150-100-90-60-40-20, 4 phases)" in lines
    assert all(line[width : width + 2] == "  " for line in lines)


def test_a_recipe_that_cannot_be_read_does_not_end_the_list(tmp_path, monkeypatch, capsys):
    (tmp_path / "run_exps").mkdir()
    (tmp_path / "run_exps" / "bad.toml").write_text("title = '\\x1b'\n[")
    monkeypatch.chdir(tmp_path)
    assert main(["recipes"]) == 0
    said = capsys.readouterr().out
    assert "  cannot be read: run_exps/bad.toml: is not valid TOML" in said
    assert "\nmushrooms " in said


def test_one_is_shown_complete(capsys, tmp_path):
    assert main(["recipes", "show", "rws/web"]) == 0
    shown = tmp_path / "shown.toml"
    shown.write_text(capsys.readouterr().out)
    assert "extends" not in shown.read_text()
    assert Recipe.load(shown) == Recipe.load(find_recipe("rws/web"))


def test_a_template_is_written_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["recipes", "new", "--data", "data/mine.hdf5"]) == 0
    assert Recipe.load(tmp_path / "mine.toml").dataset == "data/mine.hdf5"
    assert "before that: bihm data import FILE --name mine\n" in capsys.readouterr().out
    assert main(["recipes", "new", "--data", "data/mine.hdf5"]) == 2
    assert "mine.toml: exists already" in capsys.readouterr().err
    assert main(["recipes", "new", "--data", "bars"]) == 0
    assert "before that" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["show"], "recipes show: give the name"),
        (["new"], "give your data set with --data"),
        (["show", "mnits"], "did you mean 'mnist'"),
        (["new", "--data", " "], "dataset = ' '"),
    ],
)
def test_what_is_missing_is_one_line(arguments, line, capsys):
    assert main(["recipes", *arguments]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1
