"""The data sets of the paper: sizes, content fingerprints, sources in order, citation, exactness.

One name serves everywhere: ``bihm data NAME``, ``data/NAME.hdf5``, ``dataset = "NAME"`` in a
recipe. Fingerprints are those of :mod:`bihm_repro.datasets.fingerprints`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from bihm_repro.datasets import published
from bihm_repro.datasets.sources import Source
from bihm_repro.errors import InputError

__all__ = ["CATALOGUE", "Entry", "find_entry", "how_to_make"]

EXACT = "exact"
SURROGATE = "surrogate"


@dataclass(frozen=True)
class Entry:
    """What is known of one data set before any file of it is at hand."""

    name: str
    dim: int
    sizes: Mapping[str, int]
    """Examples in train, valid and test."""
    title: str
    citation: str
    image_shape: tuple[int, int] | None = None
    grey: bool = False
    """Grey levels 0..255 that are the probabilities of binary pixels."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """By split, or by ``train+valid`` where only the union is known; a missing one is unknown."""
    surrogate_fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Those of a stand-in partition, told apart from the published one by them."""
    sources: tuple[Source, ...] = ()
    exactness: str = EXACT
    note: str = ""
    """What a reader of a number on this set has to be told."""
    by_hand: str = ""
    """How the user comes by the set where no address has it."""


_MNIST = ("Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to "
          "document recognition, Proceedings of the IEEE 86(11), 1998")
_NADE = ("H. Larochelle and I. Murray, The Neural Autoregressive Distribution Estimator, "
         "AISTATS 2011")
_UCI = "K. Bache and M. Lichman, UCI Machine Learning Repository, 2013; splits: " + _NADE


def _table_entry(name: str, dim: int, title: str, citation: str = _UCI, **more: object) -> Entry:
    """Build an entry whose sizes, fingerprints and sources are listed in ``published``."""
    return Entry(name, dim, published.SIZES[name], title, citation,
                 fingerprints=published.FINGERPRINTS.get(name, {}),
                 sources=published.sources_of(name), **more)


_ENTRIES = (
    _table_entry("binarized_mnist", 784, "MNIST digits, binarized once by Bernoulli draws",
                 citation="R. Salakhutdinov and I. Murray, On the quantitative analysis of deep "
                          "belief networks, ICML 2008; digits: " + _MNIST,
                 image_shape=(28, 28)),
    _table_entry("mnist", 784, "MNIST digits, grey levels binarized afresh each epoch",
                 citation=_MNIST, image_shape=(28, 28), grey=True),
    _table_entry("adult", 123, "Adult census records"),
    _table_entry("connect4", 126, "Connect-4 positions"),
    _table_entry("dna", 180, "DNA splice junctions"),
    _table_entry("mushrooms", 112, "Mushroom descriptions"),
    _table_entry("nips", 500, "Words in NIPS papers, volumes 0 to 12",
                 citation="S. Roweis, NIPS papers, volumes 0 to 12; splits: " + _NADE),
    _table_entry("ocr_letters", 128, "Handwritten letters",
                 citation="R. Kassel, MIT Spoken Language Systems; splits: " + _NADE,
                 image_shape=(16, 8)),
    _table_entry("rcv1", 150, "Words in Reuters news stories",
                 citation="D. Lewis, Y. Yang, T. Rose and F. Li, RCV1, JMLR 5, 2004; splits: "
                          + _NADE,
                 note="only the validation split's content could be checked",
                 by_hand="without a network, `bihm data rcv1_surrogate --mirror FOLDER` converts "
                         "a stand-in where a mirror holds it"),
    _table_entry("rcv1_surrogate", 150, "8,000 + 1,000 + 1,000 rows cut from RCV1's validation "
                 "split", citation="D. Lewis, Y. Yang, T. Rose and F. Li, RCV1, JMLR 5, 2004",
                 exactness=SURROGATE,
                 note="a stand-in cut from RCV1's validation split: its numbers cannot be compared "
                      "with the paper's",
                 by_hand="only a mirror has it: `bihm data rcv1_surrogate --mirror FOLDER_OR_URL`"),
    _table_entry("web", 300, "Web pages, w6a features",
                 citation="J. Platt, Fast training of support vector machines using sequential "
                          "minimal optimization, 1998; splits: " + _NADE,
                 surrogate_fingerprints=published.WEB_SURROGATE,
                 note="train and valid together are the published rows, but which rows are train "
                      "is not the published choice"),
    Entry("tfd", 48 * 48, {"train": 98058, "valid": 418, "test": 835},
          "Toronto Face Database, 48x48 grey levels (train: the unlabeled section)",
          "J. Susskind, A. Anderson and G. Hinton, The Toronto Face Database, technical report "
          "UTML TR 2010-001, University of Toronto, 2010",
          image_shape=(48, 48), grey=True, exactness="unchecked",
          note="not public: the content of the user's own file could not be checked",
          sources=(Source("mat", {"all": "TFD_48x48.mat"}),),
          by_hand="the set is not public: ask its authors for TFD_48x48.mat, then run "
                  "`bihm data tfd --file TFD_48x48.mat`"),
    Entry("bars", 16, {"train": 2000, "valid": 500, "test": 500},
          "Bars of 4x4 pixels, generated; entropy 4.875 log 2 = 3.379 nats",
          "P. Foldiak, Forming sparse representations by local anti-Hebbian learning, Biological "
          "Cybernetics 64, 1990 (the bars problem; this variant is generated here)",
          image_shape=(4, 4), exactness="generated",
          fingerprints=published.FINGERPRINTS["bars"]),
)

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Every data set by name, in the order of ``bihm data list``."""


def how_to_make(name: str) -> str:
    """The command that makes the file of data set ``name`` anew: catalogue or import."""
    if name in CATALOGUE:
        return f"`bihm data {name} --fresh`"
    return f"`bihm data import FILE --name {name} --fresh` from a file that is whole"


def find_entry(name: str) -> Entry:
    """Return the catalogue's entry ``name``; an unknown name's error lists the known ones."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    close = difflib.get_close_matches(name.lower().replace("-", "_"), CATALOGUE, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"data set {name!r} is not in the catalogue; {hint}known are "
                     f"{', '.join(CATALOGUE)}; for your own data run "
                     f"`bihm data import FILE --name {name}`")
