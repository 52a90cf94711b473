"""Texts that are damaged, too large or not for a terminal: one line each, nothing lost."""

from __future__ import annotations

import pytest
from hostile_run import RECIPE, one_line

from bihm_repro.errors import InputError
from bihm_repro.files import read_json, read_text, read_toml
from bihm_repro.progress import printable
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.reader import read_run


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": "\xff"}', "is not UTF-8 text"),
        (b"[" * 100_000, "is not valid JSON"),
        (b'{"a":' * 100_000, "is not valid JSON"),
        (b"[1]", "must hold a JSON object, found list"),
        (b"null", "must hold a JSON object, found NoneType"),
        (b'{"a": NaN}', "NaN is not allowed"),
        (b'{"a": 1', "is not valid JSON"),
        (b"", "is not valid JSON"),
        (rb'{"a": ["\ud800"]}', "surrogates not allowed"),
        (rb'{"\udfff": 1}', "surrogates not allowed"),
    ],
)
def test_json_that_is_none_is_one_line(tmp_path, content, said):
    path = tmp_path / "status.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_json(path)
    assert one_line(error).startswith(f"{path}: ") and said in str(error.value)


def test_a_pair_of_surrogates_is_one_character(tmp_path):
    (tmp_path / "status.json").write_text(r'{"a": "\ud83d\ude00"}')
    assert read_json(tmp_path / "status.json") == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    "content", [b"a = " + b"[" * 100_000, b"a = " + b"{b=" * 50_000, b"\xff = 1", b"a = 1\na = 2"]
)
def test_toml_that_is_none_is_one_line(tmp_path, content):
    (tmp_path / "recipe.toml").write_bytes(content)
    with pytest.raises(InputError) as error:
        read_toml(tmp_path / "recipe.toml")
    one_line(error)


def test_a_text_larger_than_any_of_ours_is_not_read(tmp_path):
    with open(tmp_path / "log.csv", "wb") as handle:
        handle.truncate(2**26 + 1)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read_text(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü", "plain ü"),
        ("\x1b[2Jx", "\\x1b[2Jx"),
        ("a\x7f\x00", "a\\x7f\\x00"),
        ("line\nbreak\u2028", "line\\x0abreak\\u2028"),
        ("\u202eevil", "\\u202eevil"),
        ("\udc80", "\\udc80"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_a_terminal_must_not_receive_is_escaped(text, shown):
    assert printable(text) == shown


def test_titles_and_names_reach_the_report_escaped(tmp_path):
    folder = RunDirectory(tmp_path / "run\x1b[31m")
    folder.claim(Recipe.from_dict({**RECIPE.to_dict(), "title": "a\x1b]0;b\x07"}))
    shown = read_run(folder.path)
    assert shown.name == "run\\x1b[31m" and shown.recipe["title"] == "a\\x1b]0;b\\x07"
