"""``bihm evaluate``: the file it writes, checked by an independent program in plain numpy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bihm_repro.cli.main import main
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.estimators.evaluate import evaluate_run
from bihm_repro.runs.layout import RunDirectory

RECIPE = """
dataset = "bars"
[model]
layers = [8, 4]
[training]
l1 = 0.0
[[phases]]
samples = 5
learning_rate = 2e-2
max_epochs = 12
[monitor]
test_every = 0
[evaluation]
samples = [1, 10, 200]
z_samples = 30000
ess_samples = 500
ess_examples = 100
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "bars.toml").write_text(RECIPE)
    out = folder / "run"
    assert main(["train", str(folder / "bars.toml"), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def evaluation(run):
    return json.loads((run / "evaluation.json").read_text())


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def log_bernoulli(v, logits):
    return (v * logits - np.logaddexp(0, logits)).sum(axis=-1)


class Plain:
    """p and q of model.npz, with nothing of the package."""

    def __init__(self, path, seed=0):
        with np.load(path, allow_pickle=False) as stored:
            self.a = {name: stored[name].astype(float) for name in stored.files if name != "meta"}
        self.rng = np.random.default_rng(seed)

    def draw(self, logits):
        return (self.rng.random(logits.shape) < sigmoid(logits)).astype(float)

    def log_p(self, x, h1, h2):
        a = self.a
        return (
            log_bernoulli(x, h1 @ a["p0.W"] + a["p0.b"])
            + log_bernoulli(h1, h2 @ a["p1.W"] + a["p1.b"])
            + log_bernoulli(h2, a["p2.b"])
        )

    def log_q(self, x, h1, h2):
        a = self.a
        return log_bernoulli(h1, x @ a["q0.W"] + a["q0.b"]) + log_bernoulli(
            h2, h1 @ a["q1.W"] + a["q1.b"]
        )

    def infer(self, x):
        h1 = self.draw(x @ self.a["q0.W"] + self.a["q0.b"])
        return h1, self.draw(h1 @ self.a["q1.W"] + self.a["q1.b"])

    def log_r(self, x):
        h1, h2 = self.infer(x)
        return self.log_p(x, h1, h2) - self.log_q(x, h1, h2)

    def log_z2(self, n):
        h2 = self.draw(np.broadcast_to(self.a["p2.b"], (n, 4)))
        h1 = self.draw(h2 @ self.a["p1.W"] + self.a["p1.b"])
        x = self.draw(h1 @ self.a["p0.W"] + self.a["p0.b"])
        terms = np.exp((self.log_q(x, h1, h2) - self.log_p(x, h1, h2) + self.log_r(x)) / 2)
        return np.log(terms.mean()), terms.std() / terms.mean() / np.sqrt(n)


def test_file_has_what_was_promised(evaluation):
    assert evaluation["dataset"] == "bars" and evaluation["split"] == "test"
    assert evaluation["n_examples"] == 500 and evaluation["seed"] == 0
    assert len(evaluation["data_fingerprint"]) == 64 and "commit" in evaluation
    assert set(evaluation["samples"]) == {"1", "10", "200"}
    for figures in evaluation["samples"].values():
        assert set(figures) == {"log_p", "log_p_tilde_star", "log_p_star"}
        assert all(v["standard_error"] > 0 for v in figures.values())
    assert evaluation["log_z2"]["samples"] == 30000
    seconds = evaluation["estimator_seconds"]
    assert list(seconds) == ["2 log Z", "log-likelihood", "effective sample size"]
    assert 0 < sum(seconds.values()) <= evaluation["seconds"] + 0.2
    assert evaluation["ess"]["samples"] == 500
    assert set(evaluation["more_samples"]) == {"500"}
    assert set(evaluation["more_samples"]["500"]) == {"log_p", "log_p_tilde_star", "log_p_star"}
    assert evaluation["more_samples"]["500"]["log_p"]["examples"] == 100
    assert len(evaluation["active_units"]) == len(evaluation["information"]) == 2
    star = evaluation["samples"]["200"]["log_p_star"]["value"]
    tilde = evaluation["samples"]["200"]["log_p_tilde_star"]["value"]
    assert star == pytest.approx(tilde - evaluation["log_z2"]["value"])


def test_an_independent_program_agrees(run, evaluation):
    plain = Plain(run / "model.npz")
    value, error = plain.log_z2(30000)
    z = evaluation["log_z2"]
    assert abs(value - z["value"]) < 4 * np.hypot(error, z["standard_error"])
    x = load_dataset("bars").splits["test"].astype(float)
    log_r = np.stack([plain.log_r(x) for _ in range(200)], axis=1)
    theirs = (np.logaddexp.reduce(log_r, axis=1) - np.log(200)).mean()
    tilde = 2 * (np.logaddexp.reduce(log_r / 2, axis=1) - np.log(200)).mean()
    ours = evaluation["samples"]["200"]
    # The same examples on both sides: only the samples differ, which moves the mean by little.
    assert ours["log_p"]["value"] == pytest.approx(theirs, abs=0.02)
    assert ours["log_p_tilde_star"]["value"] == pytest.approx(tilde, abs=0.02)
    w = np.exp(log_r / 2)
    ess = 100 * (w.sum(axis=1) ** 2 / (w**2).sum(axis=1)).mean() / 200
    assert evaluation["ess"]["p_star"]["value"] == pytest.approx(ess, abs=4)


def test_the_estimate_with_more_samples_is_that_of_enumeration(run, evaluation):
    """On all 500 examples, though only 100 of them have the 500 samples."""
    plain = Plain(run / "model.npz")
    states = ((np.arange(4096)[:, None] >> np.arange(12)) & 1).astype(float)
    h1, h2 = states[:, :8], states[:, 8:]
    exact = [
        np.logaddexp.reduce(plain.log_p(x, h1, h2))
        for x in load_dataset("bars").splits["test"].astype(float)
    ]
    found = evaluation["more_samples"]["500"]["log_p"]
    assert found["value"] == pytest.approx(np.mean(exact), abs=0.02)
    assert found["standard_error"] == pytest.approx(np.std(exact) / np.sqrt(500), rel=0.1)
    star = evaluation["more_samples"]["500"]
    assert star["log_p_star"]["value"] == pytest.approx(
        star["log_p_tilde_star"]["value"] - evaluation["log_z2"]["value"]
    )


def test_active_units_are_those_of_bihm_layers(run, evaluation, capsys):
    assert main(["layers", str(run), "--split", "test", "--examples", "500"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [int(words[2]) for words in printed] == evaluation["active_units"]
    assert [float(words[3]) for words in printed] == pytest.approx(
        evaluation["information"], abs=0.006
    )


def test_options_win_over_the_recipe(run, capsys):
    before = (run / "evaluation.json").read_bytes()
    assert (
        main(
            [
                "evaluate",
                str(run),
                "--samples",
                "3",
                "--z-samples",
                "500",
                "--ess-samples",
                "20",
                "--split",
                "valid",
                "--examples",
                "50",
                "--no-write",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert (
        "bars, valid split, 50 examples" in out
        and "K=     3" in out
        and "K=    20" in out
        and "(K=20)" in out
    )
    assert (run / "evaluation.json").read_bytes() == before


def test_an_interrupted_evaluation_goes_on_from_the_blocks_that_are_done(run, evaluation):
    computed = []

    def stopping_at(title, stop):
        def compute(estimator, numbers):
            for number in numbers:
                if (estimator.title, number) == (title, stop):
                    raise KeyboardInterrupt
                computed.append((estimator.title, number))
                yield estimator.sums(number)

        return lambda evaluation: compute

    folder = RunDirectory(run)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(folder, compute_for=stopping_at("log-likelihood", 3))
    assert computed[-1] == ("log-likelihood", 2)
    assert sorted(path.name for path in (run / "blocks").iterdir()) == [
        "2-log-Z.npz",
        "log-likelihood.npz",
    ]
    computed.clear()
    result = evaluate_run(folder, compute_for=stopping_at("", 0))
    assert computed[0] == ("log-likelihood", 3) and "2 log Z" not in dict(computed)
    assert {name: result[name] for name in ("log_z2", "samples", "ess")} == {
        name: evaluation[name] for name in ("log_z2", "samples", "ess")
    }
    assert not (run / "blocks").exists()


def test_the_trace_of_log_z2_is_written(run):
    assert main(["evaluate", str(run), "--z-trace", "20000"]) == 0
    lines = (run / "z_trace.csv").read_text().split()
    assert lines[0] == "run,k_inner,k_outer,log_z2"
    rows = np.array([line.split(",") for line in lines[1:]], dtype=float)
    assert set(rows[:, 1]) == {1.0, 10.0, 100.0}
    assert set(rows[rows[:, 1] == 1, 0]) == set(range(10))
    assert rows[:, 2].max() == 20000
    ends = rows[(rows[:, 1] == 1) & (rows[:, 2] == 20000), 3]
    assert ends.std() > 0 and len(ends) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "moon"], "split 'moon' is unknown: bars has train, valid, test"),
        (["--z-trace", "0"], "argument --z-trace: '0': an integer of at least 1"),
        (["--samples", "1.5"], "argument --samples: '1.5': an integer of at least 1"),
        (["--z-samples", "inf"], "argument --z-samples: 'inf': an integer of at least 0"),
        (["--seed", "9" * 20], "below 2**63, as in 1000 or 1e6; see bihm evaluate --help"),
        (["--z-samples", "1"], "z_samples is 1: an integer of at least 2"),
    ],
)
def test_bad_options_are_one_line(run, capsys, arguments, message):
    assert main(["evaluate", str(run), *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_other_data_and_other_files_are_refused_and_nothing_is_written(tmp_path, capsys):
    """Data imported again under the old name, or an archive that is no model."""
    rows = np.random.default_rng(0).integers(0, 2, (40, 16))
    np.save(tmp_path / "rows.npy", rows)
    data, out = str(tmp_path / "data"), tmp_path / "run"
    new = ["data", "import", str(tmp_path / "rows.npy"), "--name", "mine", "--out", data]
    assert main(new) == 0
    (tmp_path / "mine.toml").write_text(RECIPE.replace("bars", "mine"))
    assert main(["train", str(tmp_path / "mine.toml"), "--out", str(out), "--data", data]) == 0
    assert main(["evaluate", str(out), "--data", data]) == 0
    before = (out / "evaluation.json").read_bytes()
    np.save(tmp_path / "rows.npy", 1 - rows)
    assert main([*new, "--fresh"]) == 0
    capsys.readouterr()
    for command in ("evaluate", "layers"):
        assert main([command, str(out), "--data", data]) == 2
        assert "was trained on other data than those given now" in capsys.readouterr().err
    assert main(["inpaint", str(out), "--data", data, "--shape", "4x4", "--n", "2"]) == 2
    assert "was trained on other data than those given now" in capsys.readouterr().err
    np.savez(out / "model.npz", moon=rows.astype(float))
    for command in ("evaluate", "layers", "sample"):
        assert main([command, str(out), "--data", data]) == 2
        err = capsys.readouterr().err
        assert f"{out}/model.npz: " in err and "q0.W" in err and err.count("\n") == 1
    (out / "model.npz").write_bytes(b"")
    assert main(["evaluate", str(out), "--data", data]) == 2
    assert f"{out}/model.npz: is damaged or cut short (it is empty)" in capsys.readouterr().err
    assert (out / "evaluation.json").read_bytes() == before


def test_a_truncated_model_file_is_one_line(run, tmp_path, capsys):
    for name in ("recipe.toml", "model.npz"):
        data = (run / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2] if name == "model.npz" else data)
    assert main(["evaluate", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "model.npz" in err and err.count("\n") == 1
