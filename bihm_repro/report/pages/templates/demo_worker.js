"use strict";
/* The model p(x, h), q(h|x) and the Gibbs sampler of p*, as in bihm_repro/samplers: the same
   conditionals, the same weights. Layers are [x, h_1, ..., h_L], each a Uint8Array of 0 and 1.
   Runs in a worker; every request is {id, method, args}, every answer {id, value} or {id, error}. */

/* -- random numbers and elementary functions ----------------------------------------------- */

class Random {                          // sfc32, 32 bits at a time
  constructor(seed) {
    this.state = new Uint32Array([0x9e3779b9, 0x243f6a88, 0xb7e15162, seed >>> 0]);
    for (let i = 0; i < 16; i++) this.bits();
  }
  bits() {
    const s = this.state, sum = (s[0] + s[1] + s[3]++) >>> 0;
    s[0] = s[1] ^ (s[1] >>> 9);
    s[1] = s[2] + (s[2] << 3);
    s[2] = ((s[2] << 21) | (s[2] >>> 11)) + sum;
    return sum;
  }
  uniform() { return this.bits() / 4294967296; }
}

const sigmoid = (t) => 1 / (1 + Math.exp(-t));
const softplus = (t) => Math.log(1 + Math.exp(-Math.abs(t))) + Math.max(t, 0);
const logAddExp = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));

function logMeanExp(values) {
  let top = -Infinity, sum = 0;
  for (const value of values) top = Math.max(top, value);
  for (const value of values) sum += Math.exp(value - top);
  return Math.log(sum / values.length) + top;
}

function logNormalizer(logits) {        // the part of a log-probability that no value changes
  let total = 0;
  for (let i = 0; i < logits.length; i++) total += softplus(logits[i]);
  return total;
}

function logBernoulli(values, logits, normalizer = logNormalizer(logits)) {
  let total = 0;
  for (let i = 0; i < logits.length; i++) if (values[i]) total += logits[i];
  return total - normalizer;
}

function sample(means, random) {
  const values = new Uint8Array(means.length);
  for (let i = 0; i < values.length; i++) values[i] = random.uniform() < means[i];
  return values;
}

const bernoulli = (logits, random) => sample(logits.map(sigmoid), random);

function choose(logWeights, random) {   // an index, with probability proportional to exp
  let top = -Infinity, total = 0;
  for (const value of logWeights) top = Math.max(top, value);
  const cumulated = logWeights.map((value) => (total += Math.exp(value - top)));
  const threshold = random.uniform() * total;
  const found = cumulated.findIndex((value) => value > threshold);
  return found < 0 ? logWeights.length - 1 : found;
}

/* -- the model ------------------------------------------------------------------------------ */

function halfToFloat(halves) {
  const values = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const h = halves[i], exponent = (h >> 10) & 31, fraction = h & 1023;
    const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction;
    values[i] = h & 0x8000 ? -size : size;
  }
  return values;
}

function linear(input, { weights, bias }) {
  const out = Float32Array.from(bias), n = bias.length;
  for (let i = 0; i < input.length; i++) {
    if (!input[i]) continue;            // binary inputs: add the rows of the units that are on
    for (let j = 0, k = i * n; j < n; j++, k++) out[j] += weights[k];
  }
  return out;
}

class Model {
  constructor(sizes, halves) {          // p0.W, p0.b, q0.W, q0.b, p1.W, ..., and the top prior
    this.sizes = sizes;
    this.depth = sizes.length - 1;
    const values = halfToFloat(halves);
    let start = 0;
    const take = (count) => values.subarray(start, (start += count));
    this.p = [];
    this.q = [];
    for (let l = 0; l < this.depth; l++) {
      const [lower, upper] = [sizes[l], sizes[l + 1]];
      this.p.push({ weights: take(upper * lower), bias: take(lower) });
      this.q.push({ weights: take(lower * upper), bias: take(upper) });
    }
    this.prior = take(sizes[this.depth]);
    if (start !== values.length) throw new Error(`${values.length} parameters, expected ${start}`);
  }
  pLogits(level, upper) { return level === this.depth ? this.prior : linear(upper, this.p[level]); }
  qLogits(level, lower) { return linear(lower, this.q[level - 1]); }
  sampleP(random) {
    const layers = [];
    for (let l = this.depth; l >= 0; l--) layers[l] = bernoulli(this.pLogits(l, layers[l + 1]), random);
    return layers;
  }
  sampleQ(x, random) {
    const layers = [Uint8Array.from(x)];
    for (let l = 1; l <= this.depth; l++) layers.push(bernoulli(this.qLogits(l, layers[l - 1]), random));
    return layers;
  }
  logJoint(layers) {
    return layers.reduce((sum, layer, l) => sum + logBernoulli(layer, this.pLogits(l, layers[l + 1])), 0);
  }
  logQ(layers) {
    let total = 0;
    for (let l = 1; l <= this.depth; l++) total += logBernoulli(layers[l], this.qLogits(l, layers[l - 1]));
    return total;
  }
  /* log p(x, h) - log q(h|x) for samples h of q(h|x); `up` are the logits of q(h_1|x). */
  logWeights(x, samples, random, up = this.qLogits(1, x)) {
    return Array.from({ length: samples }, () => {
      const layers = [x];
      let total = 0, logits = up;
      for (let l = 1; l <= this.depth; l++) {
        if (l > 1) logits = this.qLogits(l, layers[l - 1]);
        layers.push(bernoulli(logits, random));
        total += logBernoulli(layers[l - 1], this.pLogits(l - 1, layers[l])) - logBernoulli(layers[l], logits);
      }
      return total + logBernoulli(layers[this.depth], this.prior);
    });
  }
}

/* -- the Gibbs sampler of p* ------------------------------------------------------------------ */

function latentLogWeight(model, layers, level, candidate, down, up, normalizers = [down, up].map(logNormalizer)) {
  const logP = logBernoulli(candidate, down, normalizers[0]), logQ = logBernoulli(candidate, up, normalizers[1]);
  let rest = logBernoulli(layers[level - 1], model.pLogits(level - 1, candidate));
  if (level < model.depth) rest += logBernoulli(layers[level + 1], model.qLogits(level + 1, candidate));
  return 0.5 * (logP + logQ + rest) - logAddExp(logP, logQ);
}

function drawLatent(model, state, level, random) {
  const { layers, settings } = state;
  const down = model.pLogits(level, layers[level + 1]), up = model.qLogits(level, layers[level - 1]);
  const [meanP, meanQ] = [down.map(sigmoid), up.map(sigmoid)], normalizers = [down, up].map(logNormalizer);
  const candidates = settings.keepCurrent ? [layers[level]] : [];
  for (let k = 0; k < settings.proposals; k++) {
    candidates.push(sample(random.uniform() < 0.5 ? meanP : meanQ, random));
  }
  const weights = candidates.map((one) => latentLogWeight(model, layers, level, one, down, up, normalizers));
  return candidates[choose(weights, random)];
}

/* x and, where the current state is a candidate, the weight of the replica that belongs to it. */
function drawX(model, state, random) {
  const { layers, known, settings } = state;
  const logits = model.pLogits(0, layers[1]), means = logits.map(sigmoid), normalizer = logNormalizer(logits);
  const candidates = settings.keepCurrent ? [layers[0]] : [];
  for (let k = 0; k < settings.proposals; k++) {
    const proposal = sample(means, random);
    for (let i = 0; i < known.length; i++) if (known[i]) proposal[i] = layers[0][i];
    candidates.push(proposal);
  }
  const replicas = [];
  const weights = candidates.map((one, index) => {
    const up = model.qLogits(1, one);
    const replica = model.logWeights(one, settings.inner, random, up).map((value) => 0.5 * value);
    if (settings.keepCurrent && index === 0) replica[0] = state.logReplica;
    replicas.push(replica);
    return 0.5 * (logBernoulli(layers[1], up) - logBernoulli(one, logits, normalizer)) + logMeanExp(replica);
  });
  const chosen = choose(weights, random);
  state.logReplica = replicas[chosen][choose(replicas[chosen], random)];
  return candidates[chosen];
}

function gibbsStep(model, state, random) {  // odd layers, then even layers, x last
  for (const first of [1, 2]) {
    for (let level = first; level <= model.depth; level += 2) {
      if (!state.held[level]) state.layers[level] = drawLatent(model, state, level, random);
    }
  }
  if (!state.held[0] && state.known.some((one) => !one)) state.layers[0] = drawX(model, state, random);
}

/* -- requests --------------------------------------------------------------------------------- */

let model = null, random = new Random(1), running = false, timer = 0, ticks = 0;
const state = {
  layers: [], known: null, held: [], logReplica: 0, delay: 60,
  settings: { proposals: 30, inner: 1, keepCurrent: false },
};

function restartReplica() { state.logReplica = 0.5 * model.logWeights(state.layers[0], 1, random)[0]; }

function estimate(samples) {
  const weights = model.logWeights(state.layers[0], samples, random);
  return { logPTildeStar: 2 * logMeanExp(weights.map((one) => 0.5 * one)), logP: logMeanExp(weights), samples };
}

function snapshot(extra = {}) {
  const means = model.pLogits(0, state.layers[1]).map(sigmoid);
  return { layers: state.layers, means, known: state.known, held: state.held, ...extra };
}

function tick() {
  if (!running) return;
  const began = performance.now();
  gibbsStep(model, state, random);
  ticks += 1;
  const extra = ticks % 3 === 0 ? { estimate: estimate(50) } : {};
  postMessage({ event: "state", value: snapshot(extra) });
  timer = setTimeout(tick, Math.max(0, state.delay - (performance.now() - began)));
}

const methods = {
  load({ sizes, weights, seed }) {
    model = new Model(sizes, new Uint16Array(weights));
    random = new Random(seed);
    state.known = new Uint8Array(sizes[0]);
    state.held = sizes.map(() => false);
    state.layers = model.sampleP(random);
    restartReplica();
    return snapshot();
  },
  seed(seed) { random = new Random(seed); },
  settings(changes) { Object.assign(state.settings, changes); },
  delay(milliseconds) { state.delay = milliseconds; },
  run() { if (!running) { running = true; tick(); } },
  pause() { running = false; clearTimeout(timer); },
  step(count = 1) {
    for (let i = 0; i < count; i++) gibbsStep(model, state, random);
    return snapshot({ estimate: estimate(50) });
  },
  sampleP() {
    const layers = model.sampleP(random);
    for (let l = 0; l < layers.length; l++) if (!state.held[l]) state.layers[l] = layers[l];
    restartReplica();
    return snapshot({ estimate: estimate(100) });
  },
  samplesOfP(count) {
    return Array.from({ length: count }, () => {
      const layers = model.sampleP(random);
      return { layers, means: model.pLogits(0, layers[1]).map(sigmoid) };
    });
  },
  /* Put x on the canvas, where `known` pixels stay: h of q(h|x), the other pixels of p(x|h_1). */
  infer({ x, known }) {
    const kept = Uint8Array.from(x, (value, i) => (known[i] ? value : 0));
    const layers = model.sampleQ(kept, random);
    for (let l = 1; l < layers.length; l++) if (!state.held[l]) state.layers[l] = layers[l];
    const proposal = bernoulli(model.pLogits(0, state.layers[1]), random);
    state.layers[0] = Uint8Array.from(kept, (value, i) => (known[i] ? value : proposal[i]));
    state.known = Uint8Array.from(known);
    restartReplica();
    return snapshot({ estimate: estimate(100) });
  },
  setLayers(layers) {
    state.layers = layers.map((layer) => Uint8Array.from(layer));
    restartReplica();
    return snapshot({ estimate: estimate(100) });
  },
  setX({ x, known }) {                      // while drawing: the layers above stay as they are
    state.layers[0] = Uint8Array.from(x);
    state.known = Uint8Array.from(known);
    restartReplica();
    return { estimate: estimate(50) };
  },
  hold({ level, held }) { state.held[level] = held; },
  flip({ level, unit }) {
    state.layers[level] = Uint8Array.from(state.layers[level]);
    state.layers[level][unit] ^= 1;
    return snapshot();
  },
  resample(level) {
    state.layers[level] = level ? drawLatent(model, state, level, random) : drawX(model, state, random);
    return snapshot({ estimate: estimate(100) });
  },
  field(unit) {                             // what one unit of h_1 adds to the logits of x
    return model.p[0].weights.slice(unit * model.sizes[0], (unit + 1) * model.sizes[0]);
  },
  /* For the tests: the quantities that numpy computes too. */
  logits({ level, input, upward }) { return Array.from(upward ? model.qLogits(level, input) : model.pLogits(level, input)); },
  logJoint(layers) { return model.logJoint(layers); },
  logQ(layers) { return model.logQ(layers); },
  estimate(samples) { return estimate(samples); },
  latentLogWeights({ layers, level, candidates }) {
    const down = model.pLogits(level, layers[level + 1]), up = model.qLogits(level, layers[level - 1]);
    return candidates.map((one) => latentLogWeight(model, layers, level, one, down, up));
  },
  drawMany({ layers, level, count, settings }) {  // states drawn from p*(layer | its neighbours)
    const one = { ...state, layers: layers.map((layer) => Uint8Array.from(layer)), settings };
    one.known = new Uint8Array(model.sizes[0]);
    const start = one.layers[level];
    return Array.from({ length: count }, () => {
      one.layers[level] = start;
      const drawn = level ? drawLatent(model, one, level, random) : drawX(model, one, random);
      return drawn.reduce((index, bit, position) => index + bit * 2 ** position, 0);
    });
  },
};

onmessage = ({ data: { id, method, args } }) => {
  try {
    postMessage({ id, value: methods[method](args) });
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
};
