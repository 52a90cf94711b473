"""Files of interrupted evaluations (``blocks/``), damaged or forged, and evaluations that go on.

Bytes have a checksum: an estimate that goes on from changed ones must end as an uninterrupted one.
Forged sums cannot be told from true ones; they must not end in a traceback or a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bihm_repro.estimators.blocks import Estimator, ProgressFiles, run_estimator
from bihm_repro.estimators.effective_sample_size import EffectiveSampleSizeEstimator
from bihm_repro.estimators.log_likelihood import LogLikelihoodEstimator
from bihm_repro.estimators.partition_function import LogZ2Estimator
from bihm_repro.runs.arrays import read_arrays
from tests.torture.archives import _array, _forged, _plain, _zipped
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_bytes

MODEL: Any = SimpleNamespace(kind="bihm", data_dim=2, layers=[2**17], can=lambda capability: False)
X = np.array([[0, 1], [1, 1], [0, 0]], np.float32)


def _weights(x: np.ndarray, samples: int, block: int) -> np.ndarray:
    return np.random.default_rng(block).normal(size=(len(x), samples))


def _terms(rows: int, block: int) -> np.ndarray:
    return np.random.default_rng(block).normal(size=rows)


_terms.inner = 1000  # type: ignore[attr-defined]

MAKERS: tuple[Callable[[], Estimator], ...] = (
    lambda: LogLikelihoodEstimator(MODEL, X, (1, 9, 25), 3, _weights, block=(2, 5)),  # type: ignore
    lambda: EffectiveSampleSizeEstimator(MODEL, X, 300, 3, _weights),  # type: ignore[arg-type]
    lambda: LogZ2Estimator(MODEL, 30, 1000, 3, trace=3, log_terms=_terms),  # type: ignore
)


def _prepare(folder: Path) -> list[str]:
    return [repr(run_estimator(make(), quiet=True)) for make in MAKERS]


def _until(stop: int) -> Any:
    def compute(estimator: Estimator, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        for number in numbers:
            if number == stop:
                raise KeyboardInterrupt
            yield estimator.sums(number)

    return compute


def _attack(expected: list[str], case: Case) -> str:
    chance = case.random
    which = chance.randrange(len(MAKERS))
    make, files = MAKERS[which], ProgressFiles(case.folder / "blocks", "key")
    stop = chance.randrange(1, make().count)
    try:
        run_estimator(make(), _until(stop), files=files, quiet=True)
    except KeyboardInterrupt:
        pass
    [path] = files.folder.iterdir()
    if ProgressFiles(files.folder, "key").restore(make()) != stop:
        raise Failure("an intact file was not used")
    kind = chance.random()
    if kind < 0.5:
        path.write_bytes(mutated_bytes(path.read_bytes(), chance))
    elif kind < 0.9:
        _forge(path, case)
    else:
        files = ProgressFiles(files.folder, chance.choice(("key2", "", "\x1b")))
    restored = files.restore(make())
    found = run_estimator(make(), files=files, quiet=True)
    if not 0.5 <= kind < 0.9 and repr(found) != expected[which]:
        raise Failure(f"another estimate from block {restored}: {found!r:.300}")
    if "nan" in repr(found):
        raise Failure(f"not a number from block {restored}: {found!r:.300}")
    files.remove()
    return "used" if restored else "not used"


def _forge(path: Path, case: Case) -> None:
    chance, arrays = case.random, read_arrays(path)
    entries = {name: _plain(value) for name, value in arrays.items()}
    kind = chance.randrange(3)
    if kind == 0:
        path.write_bytes(_forged(entries, chance))
        return
    name = chance.choice(list(arrays))
    if kind == 1:
        entries[name] = _plain(_array(chance))
    elif name == "next":
        entries[name] = _plain(np.array(chance.choice((-1, 0, 10**6, 2**63 - 1))))
    elif arrays[name].dtype.kind == "f":
        entries[name] = _plain(np.full_like(arrays[name], chance.choice((np.nan, 1e308, -1e308))))
    path.write_bytes(_zipped(entries, chance))


GROUP = Group("blocks", 0.7, _prepare, _attack)
