"""Data sets: registry, download, conversion to Fuel's HDF5 layout, loading, streams.

Nothing here imports the symbolic engine. Most users need ``load_dataset`` and ``BatchStream``.
"""

from __future__ import annotations

from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.datasets.streams import BatchStream

__all__ = ["BatchStream", "Dataset", "load_dataset"]
