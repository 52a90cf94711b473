"""Archives of arrays that are damaged, foreign or hostile: one line each, nothing believed."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hostile_run import one_line

from bihm_repro.errors import InputError
from bihm_repro.runs.arrays import read_arrays


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
        (header(f"(0, {2**40})"), "has shape"),
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


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_text_of_numbers_that_are_no_characters_is_refused(tmp_path, order):
    path = tmp_path / "m.npz"
    for last, accepted in ((0x10FFFF, True), (0x110000, False), (0xFFFFFFFF, False)):
        codes = np.array([ord("{"), ord("a"), last], f"{order}u4")
        np.savez(path, text=codes.view(f"{order}U3")[0:1].reshape(()), none=np.array([], "U"))
        if accepted:
            assert str(read_arrays(path)["text"]) == "{a\U0010ffff"
        else:
            with pytest.raises(InputError, match="m.npz: is damaged: its entry 'text.npy'"):
                read_arrays(path)


def test_the_end_of_an_archive_is_not_looked_for_in_a_comment(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, w=np.ones(3))
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"0123456789\x01\x000123456789"  # where the number of arrays would be
    with pytest.raises(InputError, match="lists 1 arrays, its end -1"):
        read_arrays(path)


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "m.npz").touch()
    with pytest.raises(InputError, match=r"m.npz: is damaged or cut short \(it is empty\)"):
        read_arrays(tmp_path / "m.npz")


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


# -- status and evaluation ------------------------------------------------------------------------
