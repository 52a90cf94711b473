"""States, statuses and evaluations with wrong fields or arrays: named, or the previous one used."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hostile_run import MODEL, one_line

from bihm_repro.errors import InputError
from bihm_repro.files import parse_json
from bihm_repro.runs.arrays import previous_of
from bihm_repro.runs.record import Status

ARRAYS = {
    **{f"parameter/{name}": value for name, value in MODEL.items()},
    "rule/adam.count": np.array(4),
}
STATUS = {"phase": 1, "epoch": 5, "phase_start": 2, "sums": {"log_p": -1.5}, "best_valid": -2.0}
ROWS = [{"epoch": 1, "train_log_p": -3.25, "best": True, "log_z2": None}]


@pytest.mark.parametrize("digits", [5000, 100_000])
def test_numbers_of_thousands_of_digits_are_no_status(run, digits):
    run.file("status.json").write_text('{"updates": ' + "9" * digits + "}")
    with pytest.raises(InputError, match="status.json: (is not valid JSON|field 'updates' is 9)"):
        run.read_status()


def write_good_then(run, arrays, record):
    run.remove_state()
    run.write_state(ARRAYS, {"status": STATUS, "rows": ROWS, "data_fingerprint": "good"})
    run.write_state(arrays, record)


WRONG = ["x", -1, 1.5, None, [], {}, True, 2**70]


@pytest.mark.parametrize("name", list(Status.__dataclass_fields__))
def test_a_field_of_the_wrong_type_falls_back_to_the_previous_state(run, name, capsys):
    right = Status.__dataclass_fields__[name]
    for value in WRONG:
        if _fits(right.type, value):
            continue
        record = {"status": {**STATUS, name: value}, "rows": ROWS, "data_fingerprint": "bad"}
        write_good_then(run, ARRAYS, record)
        assert run.read_state(MODEL).record["data_fingerprint"] == "good", value
        assert f"field 'status.{name}'" in capsys.readouterr().err


def _fits(kind, value):
    return {
        "int": False,
        "float": type(value) in (int, float),
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "dict[str, float]": value == {},
        "Optional[float]": value is None or type(value) in (int, float),
    }[kind]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"status": []}, "field 'status' is []"),
        ({"rows": {}}, "field 'rows'"),
        ({"rows": [[1]]}, "field 'rows'"),
        ({"rows": [{"epoch": "1"}]}, "field 'rows'"),
        ({"data_fingerprint": 3}, "field 'data_fingerprint' is 3"),
        ({"status": {"phase": 2}}, "the recipe has 2 phases"),
        ({"status": {"phase_start": 1}}, "later than the current epoch 0"),
        ({"status": {"phase_start": 9, "epoch": 8}}, "later than the current epoch 8"),
        ({"status": {"moon": 1}}, "field 'status.moon' is unknown"),
        ({"best": "0" * 64}, "its best parameters, 000000000000, are not in model.npz"),
        ({"status": {"sums": {"log_p": "1"}}}, "field 'status.sums'"),
    ],
)
def test_a_record_that_training_cannot_use_falls_back(run, record, said, capsys):
    write_good_then(run, ARRAYS, {"status": {}, "rows": [], **record})
    assert run.read_state(MODEL).record["data_fingerprint"] == "good"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("status", [{}, {"phase": 1}, {"epoch": 3, "phase_start": 3}])
def test_a_record_at_the_limits_of_what_training_can_use_is_used(run, status):
    write_good_then(run, ARRAYS, {"status": status, "rows": [], "data_fingerprint": "new"})
    assert run.read_state(MODEL).record["data_fingerprint"] == "new"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameter/p0.W": np.ones((3, 2), np.float32)}, "expected float32 of shape (2, 3)"),
        ({"parameter/p0.W": np.ones((2, 3), int)}, "parameter p0.W is int64 of shape (2, 3)"),
        ({"parameter/p0.b": None}, "parameter p0.b is missing"),
        ({"parameter/moon": np.ones(2)}, "parameter moon is unknown"),
        ({"moon/x": np.ones(2)}, "array moon/x belongs to nothing"),
        ({"best/p0.b": np.ones(2)}, "best p0.W is missing"),
        ({"rule/x": np.array("text")}, "array rule/x has the type"),
        ({"rule/x": np.array([np.nan])}, "array rule/x holds values that are not finite"),
    ],
)
def test_arrays_that_do_not_fit_the_model_fall_back(run, changes, said, capsys):
    arrays = {name: value for name, value in {**ARRAYS, **changes}.items() if value is not None}
    write_good_then(run, arrays, {"status": STATUS, "rows": ROWS, "data_fingerprint": "bad"})
    assert run.read_state(MODEL).record["data_fingerprint"] == "good"
    assert said in capsys.readouterr().err
    previous_of(run.file("state.npz")).unlink()
    with pytest.raises(InputError, match="restart with --fresh") as error:
        run.read_state(MODEL)
    one_line(error)


@pytest.mark.parametrize(
    "content",
    [
        {"finished": "yes"},
        {"updates": -1},
        {"seconds": "1"},
        {"best_valid": []},
        {"phase": 1.5},
        {"engine": 3},
        {"data_fingerprint": None},
    ],
)
def test_a_status_with_a_wrong_type_names_the_field(run, content):
    run.file("status.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"status.json: field '{next(iter(content))}' is"):
        run.read_status()


ESTIMATE = {"value": -1.0, "standard_error": 0.5}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "field 'samples' must map K"),
        ({"samples": []}, "field 'samples' is []"),
        ({"samples": {"²": {"log_p": ESTIMATE}}}, "the key '²'"),
        ({"samples": {"1": {}}}, "field 'samples.1.log_p' has no value"),
        ({"samples": {"1": {"log_p": 3}}}, "field 'samples.1.log_p' is 3"),
        ({"samples": {"1": {"log_p": {"value": "x"}}}}, "samples.1.log_p.value"),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "log_z2": {}}, "field 'log_z2' has no value"),
        (
            {"samples": {"1": {"log_p": ESTIMATE}}, "more_samples": {"9": {"log_p": 3}}},
            "field 'more_samples.9.log_p' is 3",
        ),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "ess": {"p": []}}, "field 'ess.p' is []"),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "n_examples": "9"}, "field 'n_examples' is '9'"),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "layers": [3, "2"]}, "field 'layers' is [3, '2']"),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "layers": {}}, "field 'layers' is {}"),
        (
            {"samples": {"1": {"log_p": ESTIMATE}}, "estimator_seconds": {"2 log Z": "9"}},
            "field 'estimator_seconds' is {'2 log Z': '9'}",
        ),
    ],
)
def test_an_evaluation_with_a_wrong_field_names_it_and_the_fix(run, content, said):
    run.file("evaluation.json").write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        run.read_evaluation()
    assert said in one_line(error) and "run `bihm evaluate" in str(error.value)


def test_a_number_too_large_for_a_float_is_no_number():
    content = parse_json('{"seconds": 1' + "0" * 400 + "}", "status.json")
    from bihm_repro.runs.record import check_status

    with pytest.raises(InputError, match="field 'seconds' is 1000"):
        check_status(content)
