"""The benchmarks' reference, floor, protocol and report; the peers check themselves (`--check`)."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import report, worker
from benchmarks.architectures import TINY, Case, cases, find_case
from benchmarks.communication import (
    MODELS,
    bytes_of_models,
    gradient_bytes,
    layer_parallel_bytes,
    parameter_count,
    rows_that_pay,
)
from benchmarks.contenders import CONTENDERS, ROOT, Contender, Worker, WorkerError
from benchmarks.growth import linear_fit
from benchmarks.measure import interleaved
from benchmarks.problem import (
    batches,
    gradient_reference,
    initial_parameters,
    parameter_names,
    relative_error,
    uniforms,
)
from benchmarks.scaling import evaluation_rows
from benchmarks.scaling import main as scaling_main
from benchmarks.scaling_page import page
from benchmarks.sgemm_floor import SgemmFloor, log_z2_products, update_products
from benchmarks.time_to import main as time_to_main
from benchmarks.time_to import time_to
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.recipes.recipe import Recipe, find_recipe
from bihm_repro.runs.layout import RunDirectory

SMALL = Case("small", data_dim=20, layers=(10, 5), samples=5, batch=10)
SGEMM = CONTENDERS[0]


def objective(parameters, x, draws, of_q):
    """What Algorithm 1 ascends for fixed samples: its slope is the gradient of p's or q's side."""
    log_r = gradient_reference(parameters, x, draws)[1]
    bound = 2 * (np.logaddexp.reduce(log_r / 2, axis=1) - np.log(log_r.shape[1])).sum()
    return log_r.mean(1).sum() - bound if of_q else bound


@pytest.mark.parametrize("name", parameter_names(TINY.depth))
def test_reference_gradient_is_the_slope_of_the_objective(name):
    parameters = {n: v.astype(np.float64) for n, v in initial_parameters(TINY).items()}
    x, draws = batches(TINY, 1)[0], uniforms(TINY)
    gradient = gradient_reference(parameters, x, draws)[0][name]
    direction = np.random.RandomState(3).normal(size=gradient.shape)
    slopes = []
    for step in (1e-6, -1e-6):
        moved = {**parameters, name: parameters[name] + step * direction}
        slopes.append(objective(moved, x, draws, name[0] == "q"))
    expected = -(slopes[0] - slopes[1]) / 2e-6
    assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_relative_error_sees_a_wrong_entry_and_a_missing_name():
    good = {"a": np.array([1.0, -2.0])}
    assert relative_error(good, good) == 0.0
    assert relative_error({"a": np.array([1.0, -1.0])}, good) == 0.5
    with pytest.raises(ValueError, match="names differ.*'a'"):
        relative_error({}, good)


def test_update_products_of_mnist_are_counted_by_hand():
    # 784*300 = 235200 at the data, 95850 above it: p forward and gradient on all 1000 rows and
    # q above the first layer likewise; q's first layer on the 100 examples only.
    expected = 1000 * (2 * (235200 + 95850) + 2 * 95850) + 100 * 2 * 235200
    assert sum(m * k * n for m, k, n, _ in update_products(find_case("mnist-K10"))) == expected
    per_row = 3 * 235200 + 4 * 95850
    assert sum(m * k * n for m, k, n, _ in log_z2_products(find_case("mnist-K10"), 1)) == per_row


def test_floor_multiplies_what_it_says():
    assert SgemmFloor().check() < 1e-6


def test_case_names_are_known_and_an_unknown_one_is_told():
    assert [case.name for case in cases()][:3] == ["mnist-K10", "mnist-K100", "adult-K10"]
    assert [case.name for case in cases()][-2:] == ["mnist-K10-14%", "mnist-K100-14%"]
    for case, share in ((find_case("adult-K10"), 0.27), (find_case("mnist-K10-14%"), 0.14)):
        assert batches(case, 2).mean() == pytest.approx(share, abs=0.01)
        assert (initial_parameters(case)["q0.b"] == np.float32(case.bias)).all()
    assert Case.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY
    with pytest.raises(ValueError, match="'mnist-K7'.*web-K100"):
        find_case("mnist-K7")


class FakeContender:
    """Remembers how often it ran; its gradients are off by `error`."""

    def __init__(self, error=0.0):
        self.error, self.runs = error, 0

    def check(self):
        return self.error

    def prepare(self, task, case):
        def run(count):
            self.runs += count

        return run


def test_worker_answers_and_refuses_wrong_gradients():
    fake, state = FakeContender(), {}
    assert worker.answer(fake, state, {"op": "check"})["ok"]
    assert not worker.answer(FakeContender(0.01), {}, {"op": "check"})["ok"]
    prepare = {"op": "prepare", "task": "update", "case": TINY.to_dict()}
    assert worker.answer(fake, state, prepare)["compile_seconds"] >= 0
    reply = worker.answer(fake, state, {"op": "run", "count": 5})
    assert fake.runs == 6 and reply["ms"] >= 0 and reply["peak_mb"] > 1
    assert "dance" in worker.answer(fake, state, {"op": "dance"})["error"]


def test_a_worker_that_cannot_start_says_how_to_learn_why():
    with Worker(Contender("none", "none", "benchmarks.there_is_none")) as process:
        with pytest.raises(WorkerError, match="benchmarks.there_is_none --check"):
            process.ask("check")


def test_interleaved_rounds_of_real_processes():
    broken = Contender("broken", "broken", "benchmarks.sgemm_floor", tasks=("nonsense",))
    found = interleaved("update", SMALL, [SGEMM], rounds=2, round_seconds=0.001)
    assert set(found) == {"sgemm"}
    assert 0 < found["sgemm"]["best_ms"] <= found["sgemm"]["median_ms"]
    assert interleaved("nonsense", SMALL, [broken], rounds=1) == {}


def test_check_mode_of_the_floor_exits_with_success():
    done = subprocess.run(
        [sys.executable, "-m", SGEMM.module, "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and json.loads(done.stdout)["ok"]


def timing(ms):
    return {"best_ms": ms, "median_ms": ms + 1, "peak_mb": 50.0, "compile_seconds": 0.1}


def content():
    found = {"sgemm": timing(10.0), "ours": timing(15.0), "textbook": timing(60.0)}
    pair = {key: found[key] for key in ("sgemm", "ours")}
    measured = {
        "update": {"mnist-K10": {"samples": 1000, "found": found}},
        "log_likelihood": {"mnist": {"samples": 20000, "found": pair}},
        "log_z2": {"mnist": {"samples": 100000, "found": pair}},
    }
    return report.bench_json(measured, {"machine": {}, "missing": {"jax": "not there"}})


def test_bench_json_has_the_promised_form():
    written = json.loads(json.dumps(content()))
    assert written["update"]["mnist-K10"] == {
        "sgemm_ms": 10.0,
        "ours_ms": 15.0,
        "centred_ms": None,
        "pytensor_ms": None,
        "jax_mode_ms": None,
        "jax_ms": None,
        "torch_ms": None,
        "textbook_ms": 60.0,
    }
    assert written["log_z2"]["mnist"] == {"ours_ms": 15.0, "sgemm_ms": 10.0, "samples": 100000}


def test_tables_give_ratios_and_what_is_missing():
    text = report.tables(content())
    row = next(line for line in text.splitlines() if "textbook" in line)
    assert row.split()[-6:] == ["60.00", "61.00", "6.00", "4.00", "16,667", "50"]
    assert "missing: jax: not there" in text


def test_chart_is_drawn(tmp_path):
    report.chart(content(), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes()[:4] == b"\x89PNG"


def test_linear_fit_of_a_line_and_of_a_bend():
    fit = linear_fit([1, 2, 3], [5.0, 7.0, 9.0])
    assert fit["ms_per_unit"] == pytest.approx(2.0)
    assert fit["r_squared"] == pytest.approx(1.0)
    assert linear_fit([1, 2, 3], [0.0, 5.0, 0.0])["r_squared"] < 0.1


def test_time_to_is_the_first_row_that_reaches_the_target_and_keeps_other_entries(tmp_path):
    log = pd.DataFrame(
        {
            "epoch": [1, 2, 3, 4],
            "updates": [10, 20, 30, 40],
            "seconds": [1.0, 2.5, 3.0, 4.0],
            "valid_log_p": [-99.0, float("nan"), -94.9, -90.0],
        }
    )
    assert time_to(log, 95.0) == {"target": 95.0, "updates": 30, "epoch": 3, "seconds": 3.0}
    assert time_to(log, 80.0) is None
    run = RunDirectory(tmp_path / "run")
    run.write_log(["epoch", "updates", "seconds", "valid_log_p"], log.dropna().to_dict("records"))
    (tmp_path / "bench.json").write_text('{"update": {}, "time_to": {"rws": {"updates": 7}}}')
    assert time_to_main([f"ours={run.path}", "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    assert set(written["time_to"]) == {"rws", "ours"} and "update" in written
    assert written["time_to"]["ours"]["updates"] == 30


def test_bytes_of_a_gradient_are_those_of_all_parameters():
    for case in (TINY, find_case("adult-K10")):
        values = initial_parameters(case)
        assert parameter_count(case.sizes) == sum(value.size for value in values.values())
        assert gradient_bytes(case.sizes) == sum(value.nbytes for value in values.values())


def test_bytes_of_samples_are_a_bit_per_unit_and_a_float_per_layer():
    assert layer_parallel_bytes([3, 9, 7], samples=10, batch=100) == 1000 * (16 // 8 + 2 * 4)
    assert layer_parallel_bytes([3, 1], samples=1, batch=1) == 1 + 4
    assert rows_that_pay(24, 28, 1000) == pytest.approx(1714.3, abs=0.1)
    assert rows_that_pay(24, 28, 1000, devices=8) == pytest.approx(979.6, abs=0.1)


def test_the_models_whose_bytes_are_counted_are_those_of_the_recipes():
    assert len(MODELS) == 6
    for title, sizes in MODELS.items():
        recipe = Recipe.load(find_recipe(title.lower().replace(" ", "_")))
        assert sizes == (DATASETS[recipe.dataset].dim, *recipe.model.layers), title


def test_the_page_on_cost_has_the_numbers_measured():
    updates = [
        {"batch": 100, "samples": 10, "one_ms": 28.0, "hosts_ms": 48.0, "reduction_ms": 24.0},
        {"batch": 100, "samples": 100, "one_ms": 280.0, "hosts_ms": 164.0, "reduction_ms": 24.0},
    ]
    reduction = {"model": "mnist", "hosts": 2, "gradient_bytes": 2_658_496, "updates": updates}
    times = {(0, 1, 8): 10.0, (1, 1, 8): 11.0, (0, 2, 8): 5.0, (2, 1, 8): 6.0}
    times.update({(0, 2, 16): 10.0, (2, 1, 16): 11.0})
    measured = {key: {"seconds": value, "start_seconds": 3.0} for key, value in times.items()}
    rows = evaluation_rows(measured, 8)
    assert [row["strong"] for row in rows] == [1.1, 1.2] and rows[1]["weak"] == 1.1
    assert rows[1]["speedup"] == 10 / 6
    found = page(
        {
            "communication": bytes_of_models(),
            "reduction": reduction,
            "evaluation": {"model": "mnist", "samples": 8, "rows": rows},
        }
    )
    for line in (
        "| MNIST, 12 layers | 664,624 | 2.66 MB | 0.16 MB | 1.57 MB |",
        "| 100 × K = 100 | 10,000 | 280.0 ms | 24.0 ms | 164.0 ms | 0.59 |",
        "pay from about 2,324 rows (examples × K) on",
        "it would be from about 1,714 on",
        "2.1 ms for the gradient, from about 152.",
        "| 2 | 1.20 | 1.10 | 1.67 | 3 s |",
    ):
        assert line in found
    assert page({"communication": bytes_of_models()}).count("##") == 1


@pytest.mark.slow
def test_scaling_is_measured_in_processes_of_their_own(tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setenv("BIHM_BENCH_ENVIRONMENTS", str(tmp_path))  # no second engine there
    words = ["--tiny", "--samples", "20000", "--workers", "1", "--out", str(tmp_path)]
    assert scaling_main(words) == 0
    content = json.loads((tmp_path / "scaling.json").read_text())
    (row,) = content["evaluation"]["rows"]
    assert row["workers"] == 1 and row["strong"] == row["weak"] > 0
    assert row["speedup"] == pytest.approx(1 / row["strong"])
    assert page(content) in capsys.readouterr().out and "reduction" not in content
