"""Files of a run folder that are damaged, foreign or hostile: one line each, nothing believed."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.files import parse_json, read_json, read_text, read_toml
from bihm_repro.progress import printable
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.arrays import previous_of, read_arrays
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.reader import read_run
from bihm_repro.runs.record import Status

RECIPE = Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}})
MODEL = {"p0.W": np.ones((2, 3), np.float32), "p0.b": np.zeros(3, np.float32)}
ARRAYS = {
    **{f"parameter/{name}": value for name, value in MODEL.items()},
    "rule/adam.count": np.array(4),
}
STATUS = {"phase": 1, "epoch": 5, "phase_start": 2, "sums": {"log_p": -1.5}, "best_valid": -2.0}
ROWS = [{"epoch": 1, "train_log_p": -3.25, "best": True, "log_z2": None}]


@pytest.fixture
def run(tmp_path):
    folder = RunDirectory(tmp_path / "run")
    folder.claim(RECIPE)
    return folder


def one_line(error):
    text = str(error.value)
    assert "\n" not in text and len(text) < 600, text
    return text


# -- text -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("digits", [5000, 100_000])
def test_numbers_of_thousands_of_digits_are_no_status(run, digits):
    run.file("status.json").write_text('{"updates": ' + "9" * digits + "}")
    with pytest.raises(InputError, match="status.json: (is not valid JSON|field 'updates' is 9)"):
        run.read_status()


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


# -- archives -------------------------------------------------------------------------------------


def archive(path, content, name="w.npy", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as made:
        made.writestr(name, content)
    return path


def npy(value, **changes):
    """The bytes of an array file, with parts of its header replaced."""
    buffer = io.BytesIO()
    np.save(buffer, value)
    content = buffer.getvalue()
    for old, new in changes.items():
        content = content.replace(old.encode(), new.encode())
    return content


def header(shape, dtype="<f4", data=b""):
    """The bytes of an array file with a header of our own."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def patched(path, changes):
    """Overwrite bytes of a file, by their distance from every place of a signature."""
    content = bytearray(path.read_bytes())
    for signature, offset, value in changes:
        place = content.find(signature)
        while place >= 0:
            content[place + offset] = value
            place = content.find(signature, place + 4)
    path.write_bytes(content)


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


def test_an_encrypted_archive_is_one_line(tmp_path):
    path = archive(tmp_path / "m.npz", npy(np.ones(3)))
    patched(path, [(LOCAL, 6, 1), (CENTRAL, 8, 1)])
    with pytest.raises(InputError, match="'w.npy' is encrypted"):
        read_arrays(path)


def test_an_archive_whose_directory_is_lost_is_not_an_empty_model(tmp_path):
    path = archive(tmp_path / "m.npz", npy(np.ones(3)))
    content = path.read_bytes()
    # The last record says: no entries, a directory of no bytes, at the place of this record.
    place = content.rfind(b"PK\x05\x06")
    path.write_bytes(content[: place + 8] + struct.pack("<HHIIH", 0, 0, 0, place, 0))
    with pytest.raises(InputError, match="lists 0 arrays, its end 0"):
        read_arrays(path)


def test_an_entry_that_swallows_the_others_is_noticed(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=np.ones(3), b=np.zeros(3))
    content = bytearray(path.read_bytes())
    content[content.find(CENTRAL) + 33] = 32  # the first entry now has a comment of 8 KiB
    path.write_bytes(content)
    with zipfile.ZipFile(path) as swallowed:
        assert len(swallowed.infolist()) == 1
    with pytest.raises(InputError, match="lists 1 arrays, its end 2"):
        read_arrays(path)


@pytest.mark.parametrize("method", [9, 12, 14, 93, 99])
def test_an_unknown_compression_is_one_line(tmp_path, method):
    path = archive(tmp_path / "m.npz", npy(np.ones(3)))
    patched(path, [(LOCAL, 8, method), (CENTRAL, 10, method)])
    with pytest.raises(InputError, match="compressed by an unknown method"):
        read_arrays(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (header("(1000000000,)"), "has not the size of float32 of shape"),
        (header("(-1,)"), "has shape"),
        (header("(9, 9, 9)", data=b"1234"), "has not the size"),
        (header("(1,)", "|O", b"12345678"), "has the type object"),
        (header("(2,)", "|V4", b"12345678"), "has the type"),
        (header("(0,)" + "," * 90), "damaged"),
        (header("'x'"), "damaged"),
        (header("((("), "damaged"),
        (b"", "damaged"),
        (b"\x93NUMPY\x02\x00" + b"\xff" * 40, "not a plain array"),
        (b"PK" * 40, "damaged"),
        (header("(1,)", "<M8[s]", b"12345678"), "has the type"),
        (header("(1,)", "<c8", b"12345678"), "has the type"),
    ],
)
def test_a_header_is_checked_before_anything_is_allocated(tmp_path, content, said):
    with pytest.raises(InputError) as error:
        read_arrays(archive(tmp_path / "m.npz", content))
    assert said in one_line(error)


def test_an_array_that_grows_a_hundred_times_is_refused_unread(tmp_path):
    path = tmp_path / "m.npz"
    np.savez_compressed(path, w=np.zeros(10**6))
    with pytest.raises(InputError, match="compressed more than 100 times"):
        read_arrays(path)
    np.savez_compressed(path, w=np.random.default_rng(0).normal(size=1000))
    assert read_arrays(path)["w"].shape == (1000,)


def test_entries_without_a_name_of_their_own_are_refused(tmp_path):
    with pytest.raises(InputError, match="its entries are not arrays"):
        read_arrays(archive(tmp_path / "m.npz", npy(np.ones(2)), name="readme.txt"))
    with pytest.warns(UserWarning), zipfile.ZipFile(tmp_path / "m.npz", "w") as made:
        for _ in range(2):
            made.writestr("w.npy", npy(np.ones(2)))
    with pytest.raises(InputError, match="its entries are not arrays"):
        read_arrays(tmp_path / "m.npz")


def test_a_flipped_byte_anywhere_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, w=np.arange(4, dtype=np.float32))
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            back = read_arrays(path)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert [value.tolist() for value in back.values()] == [[0, 1, 2, 3]], place


# -- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "meta", "said"),
    [
        ({"w": np.array([1.0, np.nan])}, {}, "parameter w holds values that are not finite"),
        ({"w": np.array([np.inf])}, {}, "not finite"),
        ({"w": np.array([1])}, {}, "the type int64"),
        ({"w": np.array(["1"])}, {}, "expected floating point"),
        (
            {"w": np.ones(3)},
            {"data_dim": 10**12},
            "data_dim = 1000000000000, which is the size of no",
        ),
        ({"w": np.ones(3)}, {"data_dim": "3"}, "data_dim = '3'"),
    ],
)
def test_a_model_that_is_none_is_one_line(run, values, meta, said):
    run.write_model(values, meta)
    with pytest.raises(InputError) as error:
        run.read_model()
    assert said in one_line(error) and "model.npz: " in str(error.value)


def test_a_meta_that_is_no_object_is_one_line(run):
    for meta in (np.array("[1]"), np.array(3.0), np.array(["{}"])):
        np.savez(run.file("model.npz"), w=np.ones(2), meta=meta)
        with pytest.raises(InputError, match="model.npz: its meta"):
            run.read_model()


# -- states ---------------------------------------------------------------------------------------


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
        ({"status": {"phase_start": 9}}, "later than the current epoch"),
        ({"status": {"moon": 1}}, "field 'status.moon' is unknown"),
        ({"best": "0" * 64}, "its best parameters, 000000000000, are not in model.npz"),
        ({"status": {"sums": {"log_p": "1"}}}, "field 'status.sums'"),
    ],
)
def test_a_record_that_training_cannot_use_falls_back(run, record, said, capsys):
    write_good_then(run, ARRAYS, {"status": {}, "rows": [], **record})
    assert run.read_state(MODEL).record["data_fingerprint"] == "good"
    assert said in capsys.readouterr().err


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


# -- status and evaluation ------------------------------------------------------------------------


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
        ({"samples": {"1": {"log_p": ESTIMATE}}, "ess": {"p": []}}, "field 'ess.p' is []"),
        ({"samples": {"1": {"log_p": ESTIMATE}}, "n_examples": "9"}, "field 'n_examples' is '9'"),
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
