"""Fixtures of the data set tests."""

import pytest

from bihm_repro.cli import main as cli


@pytest.fixture
def bihm(monkeypatch, capsys, tmp_path):
    """Run ``bihm data ...`` in an empty folder; returns status, output, errors."""
    monkeypatch.setattr(cli, "COMMANDS", ("data",))
    monkeypatch.delenv("BIHM_DATA_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        status = cli.main(["data", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run
