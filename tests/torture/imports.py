"""Mutated files of users: text tables, npz, npy, MATLAB and libsvm files, compressed or not."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path

import numpy as np

from bihm_repro.datasets.user_data import ImportOptions, import_file
from tests.torture.archives import HEADERS, _npy
from tests.torture.foreign import use_tiny_limits
from tests.torture.harness import Case, Group
from tests.torture.mutations import mutated_bytes, mutated_text

ROWS = (np.arange(120).reshape(20, 6) * 5 % 7 > 3).astype(np.uint8)
TEXT = (".csv", ".tsv", ".txt", ".data", ".libsvm")


def _table(separator: str, header: bool) -> str:
    lines = [separator.join(map(str, row)) for row in ROWS]
    return "\n".join([separator.join("abcdef"), *lines] if header else lines) + "\n"


def _binary(write: str) -> bytes:
    from scipy import io as scipy_io
    from scipy import sparse

    buffer = io.BytesIO()
    if write == "npy":
        np.save(buffer, ROWS)
    elif write == "npz":
        np.savez(buffer, train=ROWS, valid=ROWS[:5], test=ROWS[:6])
    elif write == "compressed":
        np.savez_compressed(buffer, X=ROWS.astype(float), y=ROWS[:, 0])
    elif write == "sparse":
        sparse.save_npz(buffer, sparse.csr_matrix(ROWS))
    elif write == "mat":
        scipy_io.savemat(buffer, {"X": ROWS.astype(float), "labels": ROWS[:, :1]})
    else:
        scipy_io.savemat(buffer, {"X": sparse.csc_matrix(ROWS.astype(float))}, do_compression=True)
    return buffer.getvalue()


def _prepare(folder: Path) -> list[tuple[str, str | bytes]]:
    use_tiny_limits()
    libsvm = "".join(
        f"{row[0]} " + " ".join(f"{at + 1}:{value}" for at, value in enumerate(row) if value) + "\n"
        for row in ROWS
    )
    index = "".join(f"{number};{';'.join(map(str, row))}\n" for number, row in enumerate(ROWS))
    kinds = {"npy": ".npy", "npz": ".npz", "compressed": ".npz", "sparse": ".npz", "mat": ".mat",
             "sparse mat": ".mat"}  # fmt: skip
    return [
        (".csv", _table(",", True)),
        (".csv", "id;a;b;c;d;e;f\n" + index),
        (".tsv", _table("\t", True)),
        (".txt", _table(" ", False)),
        (".data", _table("|", False)),
        (".libsvm", libsvm),
        (".libsvm", libsvm),
        *((suffix, _binary(kind)) for kind, suffix in kinds.items()),
    ]


def _content(suffix: str, seed: str | bytes, case: Case) -> bytes:
    chance = case.random
    if isinstance(seed, str):
        return mutated_text(seed, chance)
    if suffix == ".npy" and chance.random() < 0.3:
        return _npy(chance.choice(HEADERS) + "\n", bytes(chance.choice((0, 24, 1000))))
    return mutated_bytes(seed, chance)


def _attack(seeds: list[tuple[str, str | bytes]], case: Case) -> str:
    chance = case.random
    suffix, seed = seeds[case.number % len(seeds)]
    content = _content(suffix, seed, case)
    if suffix in TEXT and chance.random() < 0.1:
        suffix, pack = chance.choice(
            ((f"{suffix}.gz", gzip.compress), (f"{suffix}.xz", lzma.compress))
        )
        content = pack(content) if chance.random() < 0.5 else mutated_bytes(pack(content), chance)
    path = case.folder / f"own{suffix}"
    path.write_bytes(content)
    options = ImportOptions(
        threshold=chance.choice((None, None, None, 0.0, 0.5)),
        scale=chance.choice((None, None, None, 255.0, 2.0)),
    )
    said: list[str] = []
    import_file(path, "own", case.folder / "data", options, say=said.append)
    return "accepted"


GROUP = Group("imports", 1.0, _prepare, _attack)
