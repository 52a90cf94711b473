"""The mutants of a source, the tests that are chosen for them, and what counts as noticed."""

from __future__ import annotations

import pytest

from tests.mutation import __main__ as mutation
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import mutants_of


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a < b", ["a < b -> (a <= b)"]),
        ("x = 0 <= a != b", ["0 <= a != b -> (0 < a != b)", "0 <= a != b -> (0 <= a == b)",
                             "0 -> 1"]),
        ("x = a + b * c", ["a + b * c -> (a - b * c)", "b * c -> (b / c)"]),
        ("x = a and not b", ["a and not b -> (a or not b)", "not b -> (b)"]),
        ("x = b if a else c", ["b if a else c -> (c)", "b if a else c -> (b)"]),
        ("x = True, 2.5, -a", ["True -> False", "2.5 -> 3.5", "-a -> (a)"]),
        ("if a:\n    x += 1\n    f()", ["x += 1 -> pass", "1 -> 2", "f() -> pass"]),
        ("if a:\n    raise E('1' + f'{b + 1}')", ["raise E('1' + f'{b + 1}') -> pass"]),
        ('"""Doc."""\nx: dict[str, int | None] = {}', []),
        ("def f(x: int | None = 1) -> bool | None:\n    ...", ["1 -> 2"]),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("x = 'é', a is b", ["a is b -> (a is not b)"]),
    ],
)  # fmt: skip
def test_each_operator_number_and_statement_is_changed_once(source, changes):
    found = mutants_of(source.encode())
    assert [mutant.change for mutant in found] == changes
    for mutant in found:
        compile(mutant.source, "mutant", "exec")
        assert mutant.source != source.encode()
        assert mutant.source.count(b"\n") == source.count("\n")


def test_a_mutant_knows_its_line_and_whether_it_is_run_by_calls():
    found = mutants_of(b"a = 1\ndef f(b=2):\n    return 3\n")
    assert [(mutant.line, mutant.old, mutant.in_function) for mutant in found] == [
        (1, "1", False),
        (2, "2", False),
        (3, "3", True),
    ]


def test_what_is_explained_exists_still():
    for file, text, change in EQUIVALENT:
        found = mutants_of((mutation.ROOT / file).read_bytes())
        assert any((m.text, m.change) == (text, change) for m in found), (file, text)


def test_quick_tests_that_run_the_line_come_first():
    one, two, three = mutants_of(b"def f():\n    g(1)\n    return 2\nx = 3\n")[1:]
    table = {
        "seconds": {"slow": 9.0, "quick": 1.0, "other": 0.5},
        "lines": {"a.py": {"slow": [1, 2], "quick": [2], "other": [3]}},
    }
    assert mutation.chosen_tests(one, "a.py", table) == ["quick", "slow"]
    assert mutation.chosen_tests(two, "a.py", table) == ["other"]
    assert mutation.chosen_tests(three, "a.py", table) == ["other", "quick", "slow"]
    assert mutation.chosen_tests(one, "b.py", table) == ["other", "quick", "slow"]


def test_a_mutant_is_noticed_by_a_failing_test_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    source = b"def mutated(x):\n    return x > 2 and x < 9\n"
    (tmp_path / "mutated_module.py").write_bytes(source)
    (tmp_path / "test_it.py").write_text(
        "from mutated_module import mutated\n"
        "def test_it():\n    assert mutated(5) and not mutated(2) and not mutated(11)\n"
    )
    fates = {
        mutant.change: mutation.fate_of(mutant, "mutated_module.py", ["test_it.py"], 1, tmp_path)
        for mutant in mutants_of(source)
    }
    assert fates == {
        "x > 2 and x < 9 -> (x > 2 or x < 9)": "noticed",
        "x > 2 -> (x >= 2)": "noticed",
        "2 -> 3": "survived",
        "x < 9 -> (x <= 9)": "survived",
        "9 -> 10": "survived",
    }
    assert (tmp_path / "mutated_module.py").read_bytes() == source
