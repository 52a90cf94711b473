"""Active units and information on models where both are known, and ``bihm layers``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bihm_repro.cli.main import main
from bihm_repro.estimators.active_units import active_units
from bihm_repro.samplers.helmholtz import HelmholtzSampler

N = 4000


def model(
    copied: int, units: int = 3, prior: float = 0.0, weak: tuple[float, ...] = ()
) -> HelmholtzSampler:
    """x of 2 units; of h1 the first ``copied`` copy the first unit of x, the others are inactive.

    Layer 2 is idle altogether. p(x|h1) reads the first unit of h1 where it is copied.
    """
    q0 = np.zeros((2, units))
    q0[0, :copied] = 40.0
    q0[0, copied : copied + len(weak)] = weak
    bias = np.zeros(units)
    bias[:copied] = -20.0
    p0 = np.zeros((units, 2))
    p0[0, 0] = 40.0 if copied else 0.0
    return HelmholtzSampler(
        {
            "q0.W": q0,
            "q0.b": bias,
            "q1.W": np.zeros((units, 2)),
            "q1.b": np.zeros(2),
            "p0.W": p0,
            "p0.b": np.array([-20.0 if copied else 0.0, prior]),
            "p1.W": np.zeros((2, units)),
            "p1.b": np.zeros(units),
            "p2.b": np.zeros(2),
        }
    )


def data() -> np.ndarray:
    """First unit on in half of the rows, second in a quarter."""
    x = np.zeros((N, 2), np.float32)
    x[: N // 2, 0] = 1
    x[::4, 1] = 1
    return x


def test_copied_units_are_active_and_tell_their_entropy():
    use = active_units(model(copied=2, prior=np.log(1 / 3)), data())
    assert [(u.units, u.active) for u in use] == [(3, 2), (2, 0)]
    # The first unit of x is known from h1 (log 2 nats), the second predicted by its mean alone.
    assert use[0].information == pytest.approx(np.log(2), abs=1e-6)
    # Layer 2 gives each unit of h1, on with probability 1/2, no more than that: up to sampling.
    assert use[1].information == pytest.approx(0.0, abs=2e-3)


def test_an_idle_model_tells_nothing_and_a_wrong_mean_costs():
    use = active_units(model(copied=0, prior=0.0), data())
    assert [u.active for u in use] == [0, 0]
    lost = np.log(2) - (0.25 * np.log(4) + 0.75 * np.log(4 / 3))
    assert use[0].information == pytest.approx(-lost, abs=1e-6)


def test_a_unit_that_varies_little_does_not_count():
    # 0.2 moves a probability of 0.5 by 0.05; 1.0 by 0.23: a standard deviation of 0.12
    found = active_units(model(copied=1, weak=(0.2, 1.0)), data())
    assert found[0].active == 2


RECIPE = """
dataset = "bars"
[model]
kind = "{kind}"
layers = {layers}
[[phases]]
samples = 5
learning_rate = 2e-2
max_epochs = 1
"""


@pytest.fixture
def trained(tmp_path):
    def train(kind, layers):
        (tmp_path / "bars.toml").write_text(RECIPE.format(kind=kind, layers=layers))
        assert (
            main(
                [
                    "train",
                    str(tmp_path / "bars.toml"),
                    "--out",
                    str(tmp_path / kind),
                    "--no-evaluate",
                ]
            )
            == 0
        )
        return str(tmp_path / kind)

    return train


def test_the_command_prints_a_row_a_layer_and_refuses_what_it_cannot_read(trained, capsys):
    run = trained("bihm", [8, 4])
    capsys.readouterr()
    assert main(["layers", run, "--examples", "300"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{run}: bars, valid split, 300 examples"
    assert [line.split()[:2] for line in lines[2:]] == [["1", "8"], ["2", "4"]]
    table = Path(run) / "levels.csv"
    assert main(["layers", run, "--gap", "--examples", "300", "--out", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == f"{run}: bars, train and valid split, 300 and 300 examples, terms of the bound"
    )
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "all"]
    written = pd.read_csv(table, index_col="level")
    assert lines[-1].split()[1:] == [
        f"{written.loc['all', name]:.2f}" for name in ("train", "valid", "gap", "gap_error")
    ]
    assert written["gap"].iloc[:-1].sum() == pytest.approx(written.loc["all", "gap"])
    for bad in (["layers", run, "--out", "x"], ["layers", run, run, "--gap", "--out", "x"]):
        assert main(bad) == 2
        assert "--out: goes with --gap and one run" in capsys.readouterr().err
    assert main(["layers", run, "--split", "nonsense"]) == 2
    assert "split 'nonsense' is unknown" in capsys.readouterr().err
    for bad in (["--examples", "1"], ["--seed", "-1"]):
        assert main(["layers", run, *bad]) == 2
        assert f"argument {bad[0]}: '{bad[1]}': an integer" in capsys.readouterr().err
    assert main(["layers", trained("vae", [4])]) == 2
    assert "a vae model has no layers of binary units" in capsys.readouterr().err
