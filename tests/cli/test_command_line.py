"""The console script itself: help, version, completion, terminals."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bihm_repro import __version__
from bihm_repro.cli.main import COMMANDS, build_parser, main


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"bihm-repro {__version__}\n"


def test_help_states_defaults_and_never_none(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"usage: bihm {command}" in out
        assert "default: None" not in out and "default: False" not in out, command
        if command == "evaluate":
            assert "2 log Z (default: the recipe's, 1000000)" in out
            assert "train, valid or test (default: test)" in out


def test_the_defaults_that_help_states_are_the_recipes():
    from bihm_repro.recipes.recipe import EvaluationRecipe

    defaults = EvaluationRecipe()
    text = " ".join(
        build_parser(["evaluate"])
        ._subparsers._group_actions[0]
        .choices["evaluate"]
        .format_help()
        .split()
    )
    for value in (
        ",".join(map(str, defaults.samples)),
        defaults.z_samples,
        defaults.z_inner,
        defaults.ess_samples,
        defaults.ess_examples,
    ):
        assert f"the recipe's, {value})" in text


def test_a_command_imports_no_other_command():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from bihm_repro.cli.main import build_parser; "
            "build_parser(['doctor']); print('bihm_repro.cli.train' in sys.modules)",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_name_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS) and "--pause-after" in out


def test_output_survives_an_ascii_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "bihm_repro", "evaluate", "caf\u00e9-\u2192"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"bihm: error: caf?-?") and done.stderr.count(b"\n") == 1
