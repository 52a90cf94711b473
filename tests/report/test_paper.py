"""The published numbers agree with each other and with what the text says of them."""

from __future__ import annotations

from bihm_repro.report import paper


def test_mnist_table_agrees_with_the_text():
    rows = {row.method: row for row in paper.MNIST}
    assert rows["BiHM"].estimate == paper.MNIST_TEXT["nll_p"]
    assert all(
        row.estimate is None or row.bound is None or row.estimate < row.bound for row in paper.MNIST
    )


def test_p_star_is_worse_than_p_on_mnist_but_not_everywhere_on_uci():
    """Section 4: 84.3 and 84.6 on MNIST; p* is ahead on connect4 only."""
    assert paper.MNIST_TEXT["nll_p"] < paper.MNIST_TEXT["nll_p_star"]
    assert [e.name for e in paper.UCI if e.nll_p_star < e.nll_p] == ["connect4"]


def test_bihm_is_deeper_than_rws_everywhere():
    """Section 4: "they prefer deeper architectures"."""
    assert all(len(entry.bihm_layers) > len(entry.rws_layers) for entry in paper.UCI)
    assert len(paper.MNIST_LAYERS["BiHM"]) == 12 and len(paper.MNIST_LAYERS["RWS"]) == 5


def test_bihm_is_similar_to_or_better_than_rws():
    """Section 4: "consistently obtain similar or better results than RWS"."""
    assert all(entry.nll_p < entry.quoted["RWS - SBN"] + 0.15 for entry in paper.UCI)


def test_the_twelve_layer_model_has_about_700000_parameters():
    sizes = (784, *paper.MNIST_LAYERS["BiHM"])
    pairs = list(zip(sizes, sizes[1:]))
    weights = 2 * sum(lower * upper for lower, upper in pairs)
    biases = sum(lower + upper for lower, upper in pairs) + sizes[-1]
    assert round(weights + biases, -5) == 700_000


def test_every_set_quotes_every_model():
    assert all(set(entry.quoted) == set(paper.UCI_QUOTED_MODELS) for entry in paper.UCI)
    assert set(paper.UCI_BY_NAME) == {entry.name for entry in paper.UCI}
