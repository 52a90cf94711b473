// Layers whose units depend on the units before them in the layer: DARN and NADE. Follows layers.h.

namespace bihm {

// The uniform numbers that sample_row uses for the same key and row.
static inline void uniform_row(int n, Key key, uint32_t row, float* u) {
    const v8u lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int j = 0; j < n; j += 16) {
        v8u first = lanes + (uint32_t)(j / 2), second = lanes * 0u + row;
        threefry(first, second, key);
        store_part(u + j, to_uniform(first), std::min(8, n - j));
        if (n - j > 8) store_part(u + j + 8, to_uniform(second), std::min(8, n - j - 8));
    }
}

static inline float draw_unit(float logit, float u) {
    const float e = std::exp(-std::fabs(logit));
    return u < (logit >= 0.0f ? 1.0f : e) / (1.0f + e) ? 1.0f : 0.0f;
}

// ---------------------------------------------------------------- DARN

// Draws `repeats` samples for each of the `n` rows of `base` (n, units), the logits without the
// share of the layer's own units; a (units, units) is read above its diagonal only.
static bool sample_darn(const float* base, const float* a, npy_intp n, npy_intp units,
                        npy_intp repeats, Key key, float* sample, float* log_q, float* residual) {
    bool ok = true;
    const npy_intp rows = n * repeats;
#pragma omp parallel num_threads(team_size((double)rows * units * units / 4)) reduction(&& : ok)
    {
        float *logits = scratch(units), *u = scratch(units);
        ok = logits && u;
#pragma omp for schedule(static)
        for (npy_intp row = 0; row < rows; ++row) {
            if (!ok) continue;
            float* h = sample + row * units;
            std::copy(base + row / repeats * units, base + (row / repeats + 1) * units, logits);
            uniform_row((int)units, key, (uint32_t)row, u);
            for (npy_intp j = 0; j < units; ++j) {
                h[j] = draw_unit(logits[j], u[j]);
                if (h[j] == 0.0f) continue;
                const float* weights = a + j * units;
                for (npy_intp k = j + 1; k < units; ++k) logits[k] += weights[k];
            }
            log_q[row] = score_row(logits, nullptr, h, (int)units,
                                   residual ? residual + row * units : nullptr);
        }
        std::free(logits);
        std::free(u);
    }
    return ok;
}

// Log-probabilities of `rows` rows: row r has the values r / of_value and the base r / of_base.
static bool score_darn(const float* values, const float* base, const float* a, npy_intp rows,
                       npy_intp of_value, npy_intp of_base, npy_intp units, float* log_p,
                       float* residual) {
    const npy_intp given = rows / of_value;
    float *within = scratch(given * units + 1), *zeros = scratch(units);
    const bool ok = within && zeros;
    if (ok) {
        std::fill(zeros, zeros + units, 0.0f);
        affine(values, a, zeros, given, units, units, within);
#pragma omp parallel for schedule(static) num_threads(team_size((double)rows * units * 8))
        for (npy_intp row = 0; row < rows; ++row) {
            const npy_intp at = row / of_value * units;
            log_p[row] = score_row(base + row / of_base * units, within + at, values + at,
                                   (int)units, residual ? residual + row * units : nullptr);
        }
    }
    std::free(within);
    std::free(zeros);
    return ok;
}

// ---------------------------------------------------------------- NADE

static inline void sigmoid_of(const float* a, int n, float* out) {
    for (int j = 0; j < n; j += 8) store(out + j, sigmoid(load(a + j)).probability);
}

// sum of v_j s_j; `s` is padded to full vectors.
static inline float dot(const float* s, const float* v, int n) {
    v8f sum = splat(0.0f);
    int j = 0;
    for (; j + 8 <= n; j += 8) sum += load(s + j) * load(v + j);
    if (j < n) sum += load(s + j) * load_part(v + j, n - j, 0.0f);
    float total = 0.0f;
    for (int lane = 0; lane < 8; ++lane) total += sum[lane];
    return total;
}

static const int NADE_ROWS = 8;          // rows that share a pass over the weights

// Draws (`values` null) or scores `rows` rows. base (units) and start (hidden) of row r are rows
// r / of_base of theirs: the logits' and the hidden units' share that does not depend on the
// layer's own units. into, from: (units, hidden), the weights to and from the hidden units.
static bool nade(const float* values, const float* base, const float* start, const float* into,
                 const float* from, npy_intp rows, npy_intp of_value, npy_intp of_base,
                 npy_intp units, npy_intp hidden, Key key, float* sample, float* log_p,
                 float* residual) {
    bool ok = true;
    const int width = (int)(hidden + 7) / 8 * 8;
    const npy_intp blocks = (rows + NADE_ROWS - 1) / NADE_ROWS;
#pragma omp parallel num_threads(team_size((double)rows * units * hidden)) reduction(&& : ok)
    {
        float* memory = scratch(NADE_ROWS * 2 * (width + units) + 1);
        float *a = memory, *s = a + NADE_ROWS * width, *logits = s + NADE_ROWS * width,
            *u = logits + NADE_ROWS * units;
        ok = memory;
#pragma omp for schedule(dynamic)
        for (npy_intp block = 0; block < blocks; ++block) {
            if (!ok) continue;
            const npy_intp first = block * NADE_ROWS;
            const int count = (int)std::min<npy_intp>(NADE_ROWS, rows - first);
            for (int r = 0; r < count; ++r) {
                const float* from_start = start + (first + r) / of_base * hidden;
                std::fill(a + r * width, a + (r + 1) * width, 0.0f);
                std::copy(from_start, from_start + hidden, a + r * width);
                sigmoid_of(a + r * width, width, s + r * width);
                if (!values) uniform_row((int)units, key, (uint32_t)(first + r), u + r * units);
            }
            for (npy_intp i = 0; i < units; ++i) {
                for (int r = 0; r < count; ++r) {
                    const npy_intp row = first + r;
                    const float logit = base[row / of_base * units + i] +
                        dot(s + r * width, from + i * hidden, (int)hidden);
                    const float v = values ? values[row / of_value * units + i]
                                           : draw_unit(logit, u[r * units + i]);
                    logits[r * units + i] = logit;
                    if (sample) sample[row * units + i] = v;
                    if (v == 0.0f || i + 1 == units) continue;
                    float* mine = a + r * width;
                    for (npy_intp j = 0; j < hidden; ++j) mine[j] += v * into[i * hidden + j];
                    sigmoid_of(mine, width, s + r * width);
                }
            }
            for (int r = 0; r < count; ++r) {
                const npy_intp row = first + r;
                const float* v = values ? values + row / of_value * units : sample + row * units;
                log_p[row] = score_row(logits + r * units, nullptr, v, (int)units,
                                       residual ? residual + row * units : nullptr);
            }
        }
        std::free(memory);
    }
    return ok;
}

static const int NADE_SLICE = 32;        // hidden units whose gradients a thread makes at a time

// Columns from `at` on of in (rows, hidden), as (rows, NADE_SLICE), filled up with zeros.
static inline void copy_slice(const float* in, npy_intp rows, npy_intp hidden, npy_intp at,
                              float* out) {
    const npy_intp width = std::min<npy_intp>(NADE_SLICE, hidden - at);
    for (npy_intp i = 0; i < rows; ++i) {
        float* mine = out + i * NADE_SLICE;
        std::copy(in + i * hidden + at, in + i * hidden + at + width, mine);
        std::fill(mine + width, mine + NADE_SLICE, 0.0f);
    }
}
static inline void write_slice(const float* in, npy_intp rows, npy_intp hidden, npy_intp at,
                               float* out) {
    const npy_intp width = std::min<npy_intp>(NADE_SLICE, hidden - at);
    for (npy_intp i = 0; i < rows; ++i)
        std::copy(in + i * NADE_SLICE, in + i * NADE_SLICE + width, out + i * hidden + at);
}

// One row's share: from the last unit to the first, the hidden inputs a lose the units one by one,
// and `back` gathers the derivatives with respect to a.
static inline void nade_gradient_row(const float* v, const float* d, npy_intp units, float* a,
                                     const float* into, const float* from, float* grad_into,
                                     float* grad_from, float* back) {
    const int vectors = NADE_SLICE / 8;
    v8f inputs[vectors], s[vectors], gathered[vectors];
    for (int k = 0; k < vectors; ++k) {
        inputs[k] = load(a + 8 * k);
        gathered[k] = splat(0.0f);
    }
    for (npy_intp i = 0; i < units; ++i)
        if (v[i] != 0.0f)
            for (int k = 0; k < vectors; ++k)
                inputs[k] += v[i] * load(into + i * NADE_SLICE + 8 * k);
    bool changed = true;
    for (npy_intp i = units - 1; i >= 0; --i) {
        const npy_intp at = i * NADE_SLICE;
        if (v[i] != 0.0f) {
            for (int k = 0; k < vectors; ++k) {
                inputs[k] -= v[i] * load(into + at + 8 * k);
                store(grad_into + at + 8 * k, load(grad_into + at + 8 * k) + v[i] * gathered[k]);
            }
            changed = true;
        }
        if (changed)
            for (int k = 0; k < vectors; ++k) s[k] = sigmoid(inputs[k]).probability;
        changed = false;
        for (int k = 0; k < vectors; ++k) {
            store(grad_from + at + 8 * k, load(grad_from + at + 8 * k) + d[i] * s[k]);
            gathered[k] += d[i] * load(from + at + 8 * k) * (s[k] - s[k] * s[k]);
        }
    }
    for (int k = 0; k < vectors; ++k) store(back + 8 * k, gathered[k]);
}

// Gradients for the derivatives d (rows, units) with respect to the logits: of the weights, and
// back (rows, hidden) of the rows' start.
static bool nade_gradient(const float* values, const float* start, const float* into,
                          const float* from, const float* d, npy_intp rows, npy_intp of_value,
                          npy_intp of_base, npy_intp units, npy_intp hidden, float* grad_into,
                          float* grad_from, float* back) {
    bool ok = true;
#pragma omp parallel num_threads(team_size((double)rows * units * hidden)) reduction(&& : ok)
    {
        const npy_intp size = units * NADE_SLICE;
        float* memory = scratch(4 * size + 2 * NADE_SLICE);
        float *in = memory, *out = in + size, *g_in = out + size, *g_out = g_in + size,
            *a = g_out + size, *b = a + NADE_SLICE;
        ok = memory;
#pragma omp for schedule(dynamic)
        for (npy_intp at = 0; at < hidden; at += NADE_SLICE) {
            if (!ok) continue;
            copy_slice(into, units, hidden, at, in);
            copy_slice(from, units, hidden, at, out);
            std::fill(g_in, g_in + 2 * size, 0.0f);
            for (npy_intp row = 0; row < rows; ++row) {
                copy_slice(start + row / of_base * hidden, 1, hidden, at, a);
                nade_gradient_row(values + row / of_value * units, d + row * units, units, a, in,
                                  out, g_in, g_out, b);
                write_slice(b, 1, hidden, at, back + row * hidden);
            }
            write_slice(g_in, units, hidden, at, grad_into);
            write_slice(g_out, units, hidden, at, grad_from);
        }
        std::free(memory);
    }
    return ok;
}

}  // namespace bihm
