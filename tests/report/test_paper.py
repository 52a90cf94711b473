"""The published numbers: complete, placed, and consistent with what the text says of them."""

from __future__ import annotations

import pytest

from bihm_repro.report import paper


def test_eight_sets_in_the_order_of_the_table():
    assert [entry.name for entry in paper.UCI] == [
        "adult", "connect4", "dna", "mushrooms", "nips", "ocr_letters", "rcv1", "web"]


@pytest.mark.parametrize("row, expected", [
    ("nll_p", [13.78, 12.43, 86.49, 9.40, 272.66, 27.10, 46.12, 28.14]),
    ("nll_p_star", [13.82, 12.31, 86.92, 9.40, 272.71, 27.30, 46.98, 28.22]),
    ("minus_log_z2", [0.20, 0.27, 0.56, 0.09, 1.97, 1.87, 0.41, 0.54]),
    ("ess", [81.5, 89.1, 11.2, 92.5, 16.8, 22.5, 70.6, 55.9]),
])
def test_bihm_rows_of_the_uci_table(row, expected):
    assert [getattr(entry, row) for entry in paper.UCI] == expected


@pytest.mark.parametrize("model, expected", [
    ("NADE", [13.19, 11.99, 84.81, 9.81, 273.08, 27.22, 46.66, 28.39]),
    ("EoNADE", [13.19, 12.58, 82.31, 9.68, 272.38, 27.31, 46.12, 27.87]),
    ("DARN", [13.19, 11.91, 81.04, 9.55, 274.68, 28.17, 46.10, 28.83]),
    ("RWS - NADE", [13.16, 11.68, 84.26, 9.71, 271.11, 26.43, 46.09, 27.92]),
    ("RBM", [16.26, 22.66, 96.74, 15.15, 277.37, 43.05, 48.88, 29.38]),
    ("RWS - SBN", [13.65, 12.68, 90.63, 9.90, 272.54, 29.99, 46.16, 28.18]),
])
def test_quoted_rows_of_the_uci_table(model, expected):
    assert [entry.quoted[model] for entry in paper.UCI] == expected


def test_bihm_is_deeper_than_rws_everywhere():
    assert all(len(entry.bihm_layers) > len(entry.rws_layers) for entry in paper.UCI)
    assert len(paper.BIHM_MNIST_LAYERS) == 12 and len(paper.RWS_MNIST_LAYERS) == 5


def test_the_twelve_layer_model_has_about_700000_parameters():
    sizes = (784, *paper.BIHM_MNIST_LAYERS)
    pairs = list(zip(sizes, sizes[1:]))
    weights = 2 * sum(lower * upper for lower, upper in pairs)
    biases = sum(lower + upper for lower, upper in pairs) + sizes[-1]
    assert round(weights + biases, -5) == paper.PARAMETERS[0].value


def test_mnist_table_agrees_with_the_text():
    assert paper.MNIST_BY_NAME["BiHM"].estimate == -paper.MNIST_TEXT["log_p"].value == 84.3
    assert paper.MNIST_TEXT["log_p"].error == 0.22
    assert (paper.MNIST_TEXT["log_p_star"].value, paper.MNIST_TEXT["log_p_star"].error) == (
        -84.6, 0.23)
    assert [(row.bound, row.estimate) for row in paper.MNIST] == [
        (None, 88.9), (88.3, 84.1), (96.2, 88.7), (88.3, 85.5), (96.1, 85.3), (99.6, None),
        (96.3, 85.4), (89.2, 84.3)]


def test_every_number_says_where_it_stands():
    facts = [*paper.TRAINING, *paper.TFD, *paper.SAMPLING, *paper.PARTITION_FUNCTION,
             *paper.K_SENSITIVITY, *paper.LEARNING_CURVES, *paper.PARAMETERS]
    places = [fact.where for fact in facts]
    places += [row.where for rows in (paper.UCI, paper.MNIST, paper.ESS) for row in rows]
    places += [quoted.where for quoted in paper.MNIST_TEXT.values()]
    assert all(place.startswith(("Table", "Section 4", "Figure")) for place in places)


def test_effective_sample_sizes_of_the_text():
    assert {(row.kind, row.target): (row.value, row.error) for row in paper.ESS} == {
        ("bihm", "p_star"): (11.9, 1.1), ("bihm", "p"): (1.2, 0.2), ("rws", "p"): (0.10, 0.06),
        ("vae", "p"): (0.07, 0.02)}
