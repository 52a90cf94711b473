"use strict";
/* The page around the worker: draws its states, turns clicks and strokes into requests. */

const $ = (id) => document.getElementById(id);
const model = JSON.parse($("model").textContent);
const [rows, columns] = model.shape;
const depth = model.sizes.length - 1;
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const INK = [16, 40, 74], MODEL = [214, 96, 20], PAPER = [255, 255, 255], FREE = [255, 249, 241];

/* -- talking to the worker ---------------------------------------------------------------------- */

function fail(error) {
  $("failure").hidden = false;
  $("failure").textContent = `This page cannot go on: ${error}`;
}

const worker = (() => {
  try {
    return new Worker(URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" })));
  } catch (error) {
    fail(error);
    throw error;
  }
})();
const waiting = new Map();
let requests = 0;

function call(method, args) {
  return new Promise((resolve, reject) => {
    waiting.set(++requests, { resolve, reject });
    worker.postMessage({ id: requests, method, args });
  });
}

worker.onerror = (event) => fail(event.message);
worker.onmessage = ({ data }) => {
  if (data.event === "state") {
    if (running) show(data.value);
    return;
  }
  const { resolve, reject } = waiting.get(data.id);
  waiting.delete(data.id);
  if ("error" in data) reject(new Error(data.error));
  else resolve(data.value);
};

/* -- the state on the page ------------------------------------------------------------------------ */

let running = false, drawing = false, tool = "pen", resumeTimer = 0, latest = null;
const view = {
  layers: model.sizes.map((n) => new Uint8Array(n)),
  heat: model.sizes.map((n) => new Float32Array(n)),
  means: new Float32Array(model.sizes[0]),
  known: new Uint8Array(model.sizes[0]),
  held: model.sizes.map(() => false),
  history: [],
};

function show(state, levels = null) {
  state.layers.forEach((layer, level) => {
    if (levels && !levels.includes(level)) return;
    for (let i = 0; i < layer.length; i++) if (layer[i] !== view.layers[level][i]) view.heat[level][i] = 1;
    view.layers[level] = layer;
  });
  if (!levels || levels.includes(0)) view.means = state.means;
  if (!drawing) view.known = state.known;
  if (state.estimate) showEstimate(state.estimate);
  describe();
  wake();
}

function describe() {
  const fixed = view.known.reduce((sum, one) => sum + one, 0), all = view.known.length;
  const held = view.held.slice(1).filter(Boolean).length;
  let text = "The chain is free: every layer and every pixel is resampled.";
  if (fixed === all) text = "Every pixel is fixed: the layers above show what q and p make of it.";
  else if (fixed) text = `${fixed} pixels are fixed; the model completes the other ${all - fixed}.`;
  if (held) text += ` ${held} ${held === 1 ? "layer is" : "layers are"} held.`;
  $("mode").textContent = text;
}

/* -- drawing units and pixels ----------------------------------------------------------------------- */

const mix = (a, b, t) => `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * t))})`;
const units = [];                       // by level: {canvas, cell, perRow}

function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function layOut() {
  const width = $("layers").clientWidth - 2 * 44, narrow = width < 400;
  for (let level = depth; level >= 1; level--) {
    const n = model.sizes[level], smallest = narrow ? 4 : 5, largest = narrow ? 9 : 12;
    let lines = 1;
    while (Math.floor(width / Math.ceil(n / lines)) < smallest && lines < n) lines++;
    const perRow = Math.ceil(n / lines), cell = Math.max(2, Math.min(largest, Math.floor(width / perRow)));
    const unit = units[level];
    Object.assign(unit, { perRow, cell });
    unit.context = fit(unit.canvas, perRow * cell, lines * cell);
  }
  const available = Math.min($("x").parentElement.clientWidth, narrow ? 320 : 350, innerHeight * 0.44);
  const cell = Math.max(4, Math.floor(available / Math.max(rows, columns)));
  units[0] = { canvas: $("x"), perRow: columns, cell, context: fit($("x"), columns * cell, rows * cell) };
  const history = $("history");
  history.context = fit(history, history.parentElement.clientWidth - 36, 64);
  view.heat.forEach((heat) => heat.fill(calm ? 0 : 0.6));
  drawHistory();
  wake();
}

function paintLayer(level) {
  const { context, perRow, cell } = units[level], layer = view.layers[level], heat = view.heat[level];
  const gap = cell > 6 ? 2 : 1;
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  for (let i = 0; i < layer.length; i++) {
    const base = layer[i] ? INK : [226, 231, 238];
    context.fillStyle = mix(base, MODEL, heat[i] * (layer[i] ? 0.95 : 0.35));
    context.fillRect((i % perRow) * cell, Math.floor(i / perRow) * cell, cell - gap, cell - gap);
  }
}

function paintX() {
  const { context, cell } = units[0], binary = $("binary").checked;
  for (let i = 0; i < view.layers[0].length; i++) {
    const on = view.layers[0][i], fixed = view.known[i];
    const level = fixed || binary ? on : view.means[i];
    let [from, to] = fixed ? [PAPER, INK] : [FREE, MODEL];
    if (model.inverted) [from, to] = [to, from];
    context.fillStyle = mix(from, to, level);
    context.fillRect((i % columns) * cell, Math.floor(i / columns) * cell, cell, cell);
  }
}

let frame = 0;
function wake() { if (!frame) frame = requestAnimationFrame(paint); }

function paint() {
  frame = 0;
  let warm = false;
  for (let level = 1; level <= depth; level++) {
    paintLayer(level);
    const heat = view.heat[level];
    for (let i = 0; i < heat.length; i++) {
      heat[i] = calm || heat[i] < 0.03 ? 0 : heat[i] * 0.9;
      warm = warm || heat[i] > 0;
    }
  }
  paintX();
  if (warm) wake();
}

function thumbnail(values, label) {
  const canvas = document.createElement("canvas"), button = document.createElement("button");
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const t = i < values.length ? (model.inverted ? 1 - values[i] : values[i]) : 0;
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = PAPER[c] + (INK[c] - PAPER[c]) * t;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  button.append(canvas);
  button.title = button.ariaLabel = label;
  return button;
}

/* -- likelihood --------------------------------------------------------------------------------------- */

const nats = (value) => (Number.isFinite(value) ? value.toFixed(1).replace("-", "−") : "–");

function showEstimate(estimate) {
  latest = estimate;
  $("log-p-tilde-star").textContent = $("reading").textContent = nats(estimate.logPTildeStar);
  $("log-p").textContent = nats(estimate.logP);
  $("log-p-star").textContent = model.log_z2 === null ? "–" : nats(estimate.logPTildeStar - model.log_z2);
  view.history.push(estimate.logPTildeStar);
  if (view.history.length > 240) view.history.shift();
  drawHistory();
}

function drawHistory() {
  const canvas = $("history"), context = canvas.context, values = view.history;
  if (!context) return;
  const width = parseFloat(canvas.style.width), height = 64;
  context.clearRect(0, 0, width, height);
  const shown = model.average === null ? values : [...values, model.average];
  if (!shown.length) return;
  const low = Math.min(...shown) - 5, high = Math.max(...shown) + 5;
  const y = (value) => height - 3 - ((value - low) / (high - low)) * (height - 6);
  if (model.average !== null) {
    context.strokeStyle = "#b8c0cc";
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(0, y(model.average));
    context.lineTo(width, y(model.average));
    context.stroke();
    context.setLineDash([]);
  }
  context.strokeStyle = "#0b3c6f";
  context.lineWidth = 1.6;
  context.lineJoin = "round";
  context.beginPath();
  values.forEach((value, i) => context.lineTo((i / 239) * width, y(value)));
  context.stroke();
}

/* -- what the buttons do ------------------------------------------------------------------------------- */

function run(wanted) {
  running = wanted;
  $("run").setAttribute("aria-pressed", String(wanted));
  $("run").querySelector(".text").textContent = wanted ? "Pause" : "Run the chain";
  return call(wanted ? "run" : "pause");
}

async function dream() {                // ancestral sampling, one layer after the other
  await run(false);
  await release();
  const state = await call("sampleP");
  for (let level = depth; level >= 1; level--) {
    show({ ...state, estimate: null }, [level]);
    if (!calm) await new Promise((resolve) => setTimeout(resolve, 70));
  }
  show(state);
}

const release = () => call("setX", { x: view.layers[0], known: new Uint8Array(model.sizes[0]) })
  .then(() => view.known.fill(0));

async function put(x, known, thenRun) {
  await run(false);
  show(await call("infer", { x, known }));
  if (thenRun) await run(true);
}

async function load(layers) {
  await run(false);
  await release();
  show(await call("setLayers", layers));
}

function choose(name) {
  tool = name;
  for (const id of ["pen", "eraser"]) $(id).setAttribute("aria-checked", String(id === name));
  $("x").classList.toggle("erasing", name === "eraser");
}

async function eraseHalf(half) {
  const known = Uint8Array.from(view.layers[0], (_, i) => {
    const row = Math.floor(i / columns), column = i % columns;
    const inside = { left: column < columns / 2, right: column >= columns / 2,
      top: row < rows / 2, bottom: row >= rows / 2 }[half];
    return inside ? 0 : 1;
  });
  await put(view.layers[0], known, true);
}

/* -- drawing with the pen and the eraser ------------------------------------------------------------------ */

function cellsUnder(event) {
  const { cell } = units[0], box = $("x").getBoundingClientRect();
  const x = (event.clientX - box.left) / cell, y = (event.clientY - box.top) / cell;
  const large = Math.min(rows, columns) >= 20, radius = tool === "eraser" ? (large ? 2.6 : 0.7) : large ? 1.05 : 0.5;
  const found = [];
  for (let row = Math.floor(y - radius); row <= y + radius; row++) {
    for (let column = Math.floor(x - radius); column <= x + radius; column++) {
      const inside = row >= 0 && row < rows && column >= 0 && column < columns;
      const near = Math.hypot(column + 0.5 - x, row + 0.5 - y) <= radius;
      const index = row * columns + column;
      if (inside && index < model.sizes[0] && (near || (row === Math.floor(y) && column === Math.floor(x)))) found.push(index);
    }
  }
  return found;
}

let last = null;
function stroke(event) {
  const events = event.getCoalescedEvents && event.getCoalescedEvents().length ? event.getCoalescedEvents() : [event];
  const x = Uint8Array.from(view.layers[0]), known = Uint8Array.from(view.known);
  for (const one of events) {
    const from = last || one, steps = Math.ceil(Math.hypot(one.clientX - from.clientX, one.clientY - from.clientY) / units[0].cell) || 1;
    for (let s = 1; s <= steps; s++) {
      const t = s / steps;
      const at = { clientX: from.clientX + (one.clientX - from.clientX) * t, clientY: from.clientY + (one.clientY - from.clientY) * t };
      for (const i of cellsUnder(at)) {
        x[i] = tool === "pen" ? 1 : 0;
        known[i] = tool === "pen" ? 1 : 0;
        if (tool === "eraser") view.means[i] = 0;
      }
    }
    last = { clientX: one.clientX, clientY: one.clientY };
  }
  view.layers[0] = x;
  view.known = known;
  describe();
  wake();
  if (!stroke.busy) {
    stroke.busy = true;
    call("setX", { x, known }).then(({ estimate }) => { stroke.busy = false; showEstimate(estimate); });
  }
}

$("x").addEventListener("pointerdown", async (event) => {
  event.preventDefault();
  clearTimeout(resumeTimer);
  $("x").setPointerCapture(event.pointerId);
  const fresh = !view.known.some(Boolean);
  drawing = true;
  last = null;
  run(false);
  if (fresh && tool === "pen") {        // the first stroke begins on an empty page
    view.layers[0] = new Uint8Array(model.sizes[0]);
    view.means = new Float32Array(model.sizes[0]);
  } else if (fresh) view.known.fill(1);  // erasing a sample keeps the rest of it
  stroke(event);
});
$("x").addEventListener("pointermove", (event) => { if (drawing) stroke(event); });
for (const name of ["pointerup", "pointercancel"]) {
  $("x").addEventListener(name, () => {
    if (!drawing) return;
    drawing = false;
    resumeTimer = setTimeout(() => put(view.layers[0], view.known, true), 450);
  });
}

/* -- the page ------------------------------------------------------------------------------------------------ */

const digits = (n) => [...String(n)].map((c) => "₀₁₂₃₄₅₆₇₈₉"[c]).join("");

function buildLayer(level) {
  const row = document.createElement("div"), canvas = document.createElement("canvas");
  const lock = document.createElement("button"), again = document.createElement("button");
  row.className = "layer";
  row.dataset.level = level;
  lock.className = "lock";
  lock.textContent = `h${digits(level)}`;
  lock.title = `Hold h${level} (${model.sizes[level]} units) as it is`;
  lock.setAttribute("aria-pressed", "false");
  again.className = "again";
  again.textContent = "↻";
  again.title = `Resample h${level} given its neighbours`;
  again.ariaLabel = again.title;
  canvas.ariaLabel = `The ${model.sizes[level]} units of layer ${level}`;
  lock.onclick = () => hold(level, !view.held[level]);
  again.onclick = async () => show(await call("resample", level));
  const unitAt = (event) => {
    const { cell, perRow } = units[level], box = canvas.getBoundingClientRect();
    const unit = Math.floor((event.clientY - box.top) / cell) * perRow + Math.floor((event.clientX - box.left) / cell);
    return unit >= 0 && unit < model.sizes[level] ? unit : -1;
  };
  canvas.onclick = async (event) => {
    if (unitAt(event) < 0) return;
    await hold(level, true);
    show(await call("flip", { level, unit: unitAt(event) }));
  };
  if (level === 1) {
    canvas.onpointermove = (event) => showField(unitAt(event), event);
    canvas.onpointerleave = () => { $("field").hidden = true; };
  }
  row.append(lock, canvas, again);
  units[level] = { canvas };
  return row;
}

function hold(level, held) {
  view.held[level] = held;
  const row = document.querySelector(`.layer[data-level="${level}"]`);
  row.classList.toggle("held", held);
  row.querySelector(".lock").setAttribute("aria-pressed", String(held));
  describe();
  return call("hold", { level, held });
}

async function showField(unit, event) {
  const box = $("field");
  if (unit < 0 || event.pointerType === "touch") { box.hidden = true; return; }
  box.style.left = `${event.clientX + 14}px`;
  box.style.top = `${event.clientY + 14}px`;
  if (showField.unit === unit && !box.hidden) return;
  showField.unit = unit;
  const weights = await call("field", unit), canvas = box.firstChild;
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d"), top = weights.reduce((most, one) => Math.max(most, Math.abs(one)), 1e-6);
  for (let i = 0; i < weights.length; i++) {
    context.fillStyle = mix(PAPER, weights[i] > 0 ? MODEL : INK, Math.min(1, Math.abs(weights[i]) / (0.7 * top)));
    context.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  }
  box.hidden = false;
}

async function moreSamples() {
  const found = await call("samplesOfP", 20), label = "A sample from p: click to put it on the page";
  $("samples").replaceChildren(...found.map(({ layers, means }) => {
    const button = thumbnail(means, label);
    button.onclick = () => load(layers);
    return button;
  }));
}

function showExamples() {
  if (!$("examples")) return;
  $("examples").replaceChildren(...model.examples.map((text) => {
    const x = Uint8Array.from({ length: model.sizes[0] }, (_, i) => (parseInt(text[i >> 2], 16) >> (3 - (i & 3))) & 1);
    const button = thumbnail(x, "A test example: click to put it on the page");
    button.onclick = () => put(x, new Uint8Array(x.length).fill(1), false).then(() => choose("eraser"));
    return button;
  }));
}

function wire() {
  $("run").onclick = () => run(!running);
  $("step").onclick = async () => { await run(false); show(await call("step", 1)); };
  $("dream").onclick = dream;
  $("free").onclick = async () => { await release(); await run(true); };
  $("blank").onclick = async () => {
    await run(false);
    view.layers[0] = new Uint8Array(model.sizes[0]);
    view.means = new Float32Array(model.sizes[0]);
    view.known.fill(0);
    await call("setX", { x: view.layers[0], known: view.known });
    choose("pen");
    describe();
    wake();
  };
  for (const id of ["pen", "eraser"]) $(id).onclick = () => choose(id);
  for (const button of document.querySelectorAll("[data-half]")) button.onclick = () => eraseHalf(button.dataset.half);
  $("more").onclick = moreSamples;
  $("delay").oninput = () => { $("delay-out").textContent = `${$("delay").value} ms`; call("delay", Number($("delay").value)); };
  $("proposals").oninput = () => { $("proposals-out").textContent = $("proposals").value; call("settings", { proposals: Number($("proposals").value) }); };
  $("keep").onchange = () => call("settings", { keepCurrent: $("keep").checked });
  $("binary").onchange = wake;
  addEventListener("resize", layOut);
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === document.body) { event.preventDefault(); run(!running); }
  });
}

async function start() {
  for (let level = depth; level >= 1; level--) $("layers").append(buildLayer(level));
  $("average").textContent = model.average === null ? "–" : nats(model.average);
  layOut();
  wire();
  choose("pen");
  const bytes = Uint8Array.from(atob($("weights").textContent.trim()), (c) => c.charCodeAt(0));
  show(await call("load", { sizes: model.sizes, weights: bytes.buffer, seed: model.seed ?? Date.now() % 4294967296 }));
  showExamples();
  await moreSamples();
  document.body.classList.add("ready");
  if (!location.hash.includes("paused")) await run(true);
}

window.bihm = { call, run, view, model, put, estimate: () => latest };
window.bihm.ready = start().catch((error) => { fail(error); throw error; });
