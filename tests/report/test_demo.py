"""The demo page: its content, and in a headless browser its arithmetic, sampler and controls."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import evaluation, write_run

from bihm_repro.cli.main import main
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.report.pages.demo import build_demo, half_precision, page_shape
from bihm_repro.runs.reader import read_run
from bihm_repro.samplers.helmholtz import HelmholtzSampler

ROOT = Path(__file__).parents[2]
SIZES = (6, 4, 3, 2)


def tiny(folder, name="tiny", **options):
    return write_run(
        folder,
        name,
        "own",
        layers=SIZES[1:],
        dim=SIZES[0],
        evaluated=evaluation(-4.0, log_z2=-0.5),
        **options,
    )


def sharpened(folder):
    """The same run with weights that matter."""
    path = folder / "model.npz"
    with np.load(path) as stored:
        values = {name: stored[name] for name in stored.files}
    scaled = {name: value * 12 if name.endswith(".W") else value for name, value in values.items()}
    np.savez(path, **scaled)
    return scaled


def rounded_model(path):
    """The numpy model with the weights that the page has: float16."""
    with np.load(path / "model.npz") as stored:
        values = {name: stored[name] for name in stored.files if name != "meta"}
    depth = sum(name.endswith(".W") for name in values) // 2
    return HelmholtzSampler(half_precision(values, depth))


def test_weights_are_stored_in_order_as_float16(tmp_path):
    folder = tiny(tmp_path)
    page = build_demo(read_run(folder))
    content = base64.b64decode(re.search(r'id="weights">([^<]*)<', page)[1])
    values = np.frombuffer(content, "<f2")
    model = rounded_model(folder)
    assert np.array_equal(values[:24].reshape(4, 6), model.p[0]._weights)
    assert np.array_equal(values[-2:], model.p[3]._bias)
    assert len(values) == sum(2 * a * b + a + b for a, b in zip(SIZES, SIZES[1:])) + SIZES[-1]


def test_nothing_is_fetched_and_nothing_can_be(tmp_path):
    page = build_demo(read_run(tiny(tmp_path)))
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|<link|@import|url\(", page)


def test_settings_of_the_page_are_those_of_the_run(tmp_path):
    examples = np.array([[1, 0, 0, 1, 1, 0]])
    page = build_demo(read_run(tiny(tmp_path)), examples, seed=3)
    settings = json.loads(re.search(r'id="model">([^<]*)<', page)[1])
    assert settings["sizes"] == list(SIZES) and settings["shape"] == [2, 3]
    assert settings["log_z2"] == -0.5 and settings["average"] == pytest.approx(-4.3)
    assert settings["examples"] == ["98"] and settings["seed"] == 3


def test_hostile_title_is_escaped(tmp_path):
    folder = tiny(tmp_path)
    recipe = (folder / "recipe.toml").read_text()
    hostile = "</title><script>alert(1)</script>"
    (folder / "recipe.toml").write_text(recipe.replace("run tiny", hostile))
    page = build_demo(read_run(folder))
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_other_models_are_refused_on_one_line(tmp_path, capsys):
    write_run(tmp_path, "rws", "own", kind="rws", dim=6)
    assert main(["demo", str(tmp_path / "rws")]) == 2
    write_run(tmp_path, "empty", "own")
    assert main(["demo", str(tmp_path / "empty")]) == 2
    assert main(["demo", str(tmp_path / "none")]) == 2
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if line.startswith("bihm: error")]
    assert len(errors) == 3 and "RWS" in errors[0] and "model.npz" in errors[1]


def test_weights_beyond_float16_are_refused():
    values = {f"{part}0.{kind}": np.ones(1) for part in "pq" for kind in "Wb"}
    with pytest.raises(InputError, match="p0.W .*65504"):
        half_precision({**values, "p0.W": np.full(1, 1e6), "p1.b": np.ones(1)}, 1)


def test_data_that_are_no_images_are_laid_out_nearly_square(tmp_path):
    write_run(tmp_path, "mnist", "binarized_mnist")
    assert page_shape(read_run(tmp_path / "mnist"), 784) == (28, 28)
    write_run(tmp_path, "dna", "dna")
    assert page_shape(read_run(tmp_path / "dna"), 180) == (13, 14)


def test_command_writes_a_page_without_the_data_set(tmp_path, capsys):
    folder = tiny(tmp_path)
    assert main(["demo", str(folder), "--data", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "no test examples" in printed.err and "demo.html" in printed.out
    assert (folder / "demo.html").read_text().startswith("<!DOCTYPE html>")


def test_the_page_of_the_committed_mnist_run_is_about_two_megabytes():
    page = ROOT / "results" / "gallery" / "demo.html"
    assert 1e6 < page.stat().st_size < 2.5e6


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, where one is installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next((found for name in names if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with chromedriver here; apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver)
    opened = webdriver.Chrome(options=options, service=service)
    opened.set_script_timeout(120)
    yield opened
    opened.quit()


def opened(browser, page, size=(1360, 900)):
    phone = {"width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    if size[0] < 500:  # no window can be as narrow as a phone
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.set_window_size(*size)
    browser.get(f"file://{page}#paused")
    answer = browser.execute_async_script(
        "const done = arguments[0]; bihm.ready.then(() => done('ready'), (e) => done(String(e)));"
    )
    assert answer == "ready"
    return browser


def call(browser, method, args=None):
    """Ask the worker; typed arrays come back as lists."""
    answer = browser.execute_async_script(
        """const [method, args, done] = arguments;
        const plain = (v) => ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(plain)
          : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, w]) => [k, plain(w)])) : v;
        bihm.call(method, args).then((v) => done({value: plain(v)}), (e) => done({error: String(e)}));""",  # noqa: E501
        method,
        args,
    )
    assert "error" not in answer, answer
    return answer["value"]


@pytest.fixture(scope="module")
def tiny_page(browser, tmp_path_factory):
    """A page of a tiny model with strong weights, and the same model in numpy."""
    folder = tiny(tmp_path_factory.mktemp("demo"))
    sharpened(folder)
    page = folder / "demo.html"
    page.write_text(build_demo(read_run(folder), seed=5), encoding="utf-8")
    return opened(browser, page), rounded_model(folder)


def rows(layers):
    return [[int(value) for value in layer] for layer in layers]


def test_logits_and_log_probabilities_equal_numpys(tiny_page):
    browser, model = tiny_page
    generator = RandomStream(0, "demo")
    for _ in range(5):
        layers = [layer[0] for layer in model.sample_p(1, generator)]
        for level in range(model.depth + 1):
            above = layers[level + 1] if level < model.depth else None
            found = call(
                browser,
                "logits",
                {
                    "level": level,
                    "upward": False,
                    "input": None if above is None else above.tolist(),
                },
            )
            assert np.allclose(found, model.p_given(level, above)._logits, atol=1e-5)
            if level:
                below = layers[level - 1]
                found = call(
                    browser, "logits", {"level": level, "upward": True, "input": below.tolist()}
                )
                assert np.allclose(found, model.q_given(level, below)._logits, atol=1e-5)
        assert call(browser, "logJoint", rows(layers)) == pytest.approx(
            float(model.log_joint(layers)), abs=1e-3
        )
        assert call(browser, "logQ", rows(layers)) == pytest.approx(
            float(model.log_q(layers)), abs=1e-3
        )


def all_states(size):
    """All binary vectors; the index of a state has unit 0 as its lowest bit."""
    return np.array(list(itertools.product((0, 1), repeat=size)), np.float32)[:, ::-1]


def log_p_star_joint(model, layers):
    """log of sqrt(p(x, h) q(h|x)) S(x) up to a constant, S(x) by enumeration."""
    half = 0.5 * (model.log_joint(layers) + model.log_q(layers))
    latent = np.array(list(itertools.product((0, 1), repeat=sum(SIZES[1:]))), np.float32)
    parts = np.split(latent, np.cumsum(SIZES[1:])[:-1], axis=1)
    totals = []
    for x in layers[0]:
        full = [np.broadcast_to(x, (len(latent), SIZES[0])), *parts]
        totals.append(np.logaddexp.reduce(0.5 * (model.log_joint(full) + model.log_q(full))))
    return half + np.array(totals)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_draws_follow_the_conditionals_of_p_star(tiny_page, level):
    """Frequencies of 4,000 draws, each from 60 proposals, against exact enumeration."""
    browser, model = tiny_page
    layers = [layer[0] for layer in model.sample_p(1, RandomStream(3, "demo"))]
    states = all_states(SIZES[level])
    repeated = [np.repeat(layer[None], len(states), axis=0) for layer in layers]
    repeated[level] = states
    log_joint = log_p_star_joint(model, repeated)
    exact = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    drawn = call(
        browser,
        "drawMany",
        {
            "layers": rows(layers),
            "level": level,
            "count": 4000,
            "settings": {"proposals": 60, "inner": 20, "keepCurrent": False},
        },
    )
    found = np.bincount(drawn, minlength=len(states)) / len(drawn)
    assert exact.max() < 0.9  # or any sampler would pass
    assert 0.5 * np.abs(found - exact).sum() < 0.06


def test_weights_of_latent_candidates_equal_numpys(tiny_page):
    browser, model = tiny_page
    layers = [layer[0] for layer in model.sample_p(1, RandomStream(4, "demo"))]
    states = all_states(SIZES[2])
    repeated = [np.repeat(layer[None], len(states), axis=0) for layer in layers]
    repeated[2] = states
    log_p = model.p_given(2, layers[3]).log_prob(states)
    log_q = model.q_given(2, layers[1]).log_prob(states)
    target = 0.5 * (model.log_joint(repeated) + model.log_q(repeated))
    expected = target - np.logaddexp(log_p, log_q)
    found = np.array(
        call(
            browser,
            "latentLogWeights",
            {"layers": rows(layers), "level": 2, "candidates": states.astype(int).tolist()},
        )
    )
    assert np.allclose(found - found[0], expected - expected[0], atol=1e-3)


def test_estimate_is_that_of_the_state_on_the_page(tiny_page):
    browser, model = tiny_page
    x = [1, 0, 1, 1, 0, 0]
    call(browser, "infer", {"x": x, "known": [1] * 6})
    found = call(browser, "estimate", 200000)
    latent = np.array(list(itertools.product((0, 1), repeat=sum(SIZES[1:]))), np.float32)
    parts = np.split(latent, np.cumsum(SIZES[1:])[:-1], axis=1)
    full = [np.broadcast_to(np.array(x, np.float32), (len(latent), 6)), *parts]
    log_joint, log_q = model.log_joint(full), model.log_q(full)
    for name, power in (("logP", 1.0), ("logPTildeStar", 0.5)):
        log_w = power * (log_joint - log_q)
        exact = np.logaddexp.reduce(log_q + log_w)
        relative = np.exp(np.logaddexp.reduce(log_q + 2 * log_w) - 2 * exact) - 1
        error = np.sqrt(relative / 200000) / power
        assert found[name] == pytest.approx(float(exact / power), abs=float(4 * error)), name
        assert error < 0.1  # or any estimate would pass


@pytest.mark.parametrize("keep", [False, True])
def test_known_pixels_and_held_layers_stay(tiny_page, keep):
    browser, _ = tiny_page
    state = call(browser, "infer", {"x": [1, 0, 1, 0, 1, 0], "known": [1, 1, 1, 0, 0, 0]})
    held = state["layers"][2]
    call(browser, "hold", {"level": 2, "held": True})
    call(browser, "settings", {"keepCurrent": keep, "proposals": 5})
    seen = set()
    for _ in range(30):
        state = call(browser, "step", 1)
        assert state["layers"][0][:3] == [1, 0, 1] and state["layers"][2] == held
        seen.add(tuple(state["layers"][0]))
    assert len(seen) > 1
    call(browser, "hold", {"level": 2, "held": False})


def test_the_mnist_model_equals_numpys(browser, tmp_path):
    folder = ROOT / "results" / "mnist"
    page = tmp_path / "demo.html"
    page.write_text(build_demo(read_run(folder), seed=1), encoding="utf-8")
    opened(browser, page)
    model = rounded_model(folder)
    for layers in model_samples(model, 3):
        found = call(browser, "logits", {"level": 0, "upward": False, "input": layers[1].tolist()})
        assert np.allclose(found, model.p_given(0, layers[1])._logits, atol=1e-3)
        assert call(browser, "logJoint", rows(layers)) == pytest.approx(
            float(model.log_joint(layers)), abs=1e-3
        )
        assert call(browser, "logQ", rows(layers)) == pytest.approx(
            float(model.log_q(layers)), abs=1e-3
        )


def model_samples(model, n):
    layers = model.sample_p(n, RandomStream(0, "demo"))
    return [[layer[i] for layer in layers] for i in range(n)]


@pytest.mark.parametrize("size", [(1360, 900), (390, 844)])
def test_drawing_fixes_pixels_and_starts_the_completion(browser, tmp_path, size):
    from selenium.webdriver.common.action_chains import ActionChains

    folder = tiny(tmp_path)
    page = folder / "demo.html"
    page.write_text(build_demo(read_run(folder), np.eye(6)[:2], seed=2), encoding="utf-8")
    opened(browser, page, size)
    browser.execute_script("document.getElementById('x').scrollIntoView({block: 'center'})")
    canvas = browser.find_element("id", "x")
    ActionChains(browser).move_to_element(canvas).click_and_hold().release().perform()
    running = browser.execute_async_script(
        "const done = arguments[0]; const wait = () => bihm.view.known.some(Boolean) && "
        "document.getElementById('run').getAttribute('aria-pressed') === 'true' "
        "? done(true) : setTimeout(wait, 50); wait();"
    )
    assert running
    known, x = browser.execute_script(
        "return [Array.from(bihm.view.known), Array.from(bihm.view.layers[0])]"
    )
    assert 0 < sum(known) < 6 and all(pixel for pixel, fixed in zip(x, known) if fixed)
    assert "are fixed" in browser.find_element("id", "mode").text
    width, inner = browser.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth]"
    )
    assert width <= inner == size[0]  # nothing to scroll sideways
    browser.find_element("css selector", "#run").click()
    lock = browser.find_element("css selector", ".layer[data-level='3'] .lock")
    lock.click()
    assert lock.get_attribute("aria-pressed") == "true"
    browser.find_element("css selector", ".layer[data-level='1'] .again").click()
    browser.find_element("css selector", "#examples button").click()
    assert browser.get_log("browser") == []
