"""The gallery page: well-formed, complete, and free of anything to fetch."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest
from PIL import Image
from synthetic_runs import evaluation, write_run

from bihm_repro.cli.main import main
from bihm_repro.report.pages.gallery import build_gallery
from bihm_repro.runs.reader import read_runs

VOID = {"meta", "img", "br"}


class Balance(HTMLParser):
    """Checks that every element is closed in order; keeps texts, headings and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.pictures: list[dict[str, str]] = []
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "img":
            self.pictures.append(values)
        if "id" in values:
            self.anchors.add(values["id"])
        if "href" in values:
            self.links.append(values["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def results(tmp_path):
    """Two runs, a figure and an animation."""
    write_run(tmp_path, "adult", "adult", evaluated=evaluation(-13.56), epochs=30)
    write_run(tmp_path, "dna", "dna", finished=False)
    (tmp_path / "figures").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "figures" / "uci.png")
    Image.new("L", (3, 3)).save(tmp_path / "adult" / "chain.gif")
    return tmp_path


def parsed(results) -> Balance:
    runs, complaints = read_runs(results)
    reader = Balance()
    reader.feed(build_gallery(runs, results, complaints))
    reader.close()
    return reader


def test_elements_are_closed_in_order(results):
    assert parsed(results).open == []


def test_page_holds_tables_figures_animations_and_runs(results):
    reader = parsed(results)
    text = " ".join(reader.text)
    assert "13.56 ± 0.05" in text and "-0.22" in text
    assert 'kind = "bihm"' in text and "12 of 30 epochs." in text
    assert "Not shown" in text and "samples, inpainting" in text
    kinds = [picture["src"].split(";")[0] for picture in reader.pictures]
    assert sorted(kinds) == ["data:image/gif", "data:image/png", "data:image/png"]
    assert all(picture["alt"] for picture in reader.pictures)


def test_nothing_has_to_be_fetched_and_links_within_the_page_lead_somewhere(results):
    reader = parsed(results)
    assert all(picture["src"].startswith("data:") for picture in reader.pictures)
    inside = [link for link in reader.links if link.startswith("#")]
    assert inside and all(link[1:] in reader.anchors for link in inside)
    page = build_gallery(read_runs(results)[0], results)
    assert not re.search(r"src=\"https?:|url\(|@import|<script|<link", page)


def test_embedded_picture_is_the_file(results):
    source = next(
        picture["src"]
        for picture in parsed(results).pictures
        if picture["src"].startswith("data:image/gif")
    )
    content = base64.b64decode(source.split(",")[1])
    assert content == (results / "adult" / "chain.gif").read_bytes()


def test_text_of_others_is_escaped(results):
    path = results / "adult" / "recipe.toml"
    path.write_text(path.read_text().replace("run adult", "<script>alert(1)</script> & more"))
    page = build_gallery(*([read_runs(results)[0]]), results)
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_better_and_worse_are_told_apart(results):
    write_run(results, "web", "web", evaluated=evaluation(-28.50))
    page = build_gallery(read_runs(results)[0], results)
    assert '<td class="better">-0.22</td>' in page and '<td class="worse">+0.36</td>' in page


def test_page_begins_with_what_it_is_the_headline_picture_and_the_headline_table(results):
    Image.new("L", (5, 4)).save(results / "figures" / "samples.png")
    reader = parsed(results)
    text = " ".join(reader.text)
    places = [
        text.index(part)
        for part in (
            "is a generative model of binary data",
            "Handwritten digits",
            "our BiHM beside",
            "Runs",
        )
    ]
    assert places[0] < places[1] < places[2]
    assert "digits" in reader.pictures[0]["alt"]


def test_links_lead_to_files_and_parts_of_the_page(results):
    (results / "gallery").mkdir()
    (results / "gallery" / "demo.html").write_text("")
    reader = parsed(results)
    local = [link for link in reader.links if not link.startswith(("#", "https://arxiv.org/"))]
    assert "demo.html" in local and "../figures/uci.png" in local
    assert "../adult/evaluation.json" in local
    assert all((results / "gallery" / link).is_file() for link in local)


def test_speed_is_not_among_the_samples(results):
    Image.new("L", (4, 4)).save(results / "bench.png")
    (results / "bench.json").write_text("{}")
    text = " ".join(parsed(results).text)
    assert text.index("Time of one training update") > text.index("Samples")


def test_pictures_have_captions_in_words(results):
    Image.new("L", (3, 3)).save(results / "adult" / "inpainting-left.png")
    Image.new("L", (3, 3)).save(results / "adult" / "samples-10.png")
    text = " ".join(parsed(results).text)
    assert "The left half of each picture is hidden and completed" in text
    assert "Samples after 10 Gibbs iterations towards p*" in text


def test_hostile_names_and_titles_are_harmless(results):
    name = 'x\x1b[31m"><img src=1 onerror=alert(1)>'
    write_run(results, name, "adult", evaluated=evaluation(-13.7))
    runs, complaints = read_runs(results)
    page = build_gallery(runs, results, [f"left out: {name}"])
    assert "<img src=1" not in page and "\x1b" not in page


def test_page_without_any_run(tmp_path):
    assert "No set has an evaluated run yet." in build_gallery([], tmp_path)


def test_command_writes_one_file(results, capsys):
    assert main(["gallery", "--results", str(results)]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert (results / "gallery" / "index.html").read_text().startswith("<!DOCTYPE html>")
    assert main(["gallery", "--results", str(results / "none")]) == 2


def test_one_bad_folder_is_left_out_with_one_line(results, capsys):
    """Whichever of its files is bad: tables, figures and gallery go on without it."""
    bad = {
        "recipe": ("recipe.toml", b"="),
        "status": ("status.json", b"[]"),
        "evaluation": ("evaluation.json", b"{"),
        "model": ("model.npz", b"PK\x03\x04"),
        "text": ("log.csv", b"\xff\xfe\x00"),
        "log": ("log.csv", b'updates,"\n1\n'),
    }
    for name, (file, content) in bad.items():
        (write_run(results, f"bad-{name}", "dna", epochs=2) / file).write_bytes(content)
    for command in (["tables"], ["figures", "uci"], ["gallery"]):
        assert main([*command, "--results", str(results)]) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if "bad-" in line]
        assert len(lines) == len(bad), command
        assert all(line.startswith("left out: ") for line in lines)
    for name in bad:
        assert main(["demo", str(results / f"bad-{name}")]) == 2
        assert capsys.readouterr().err.count("\n") == 1
