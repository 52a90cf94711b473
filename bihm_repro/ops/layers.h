// Layers of Bernoulli units, their weight gradients, and Adam: what the fused Ops call. Follows
// products.h.

namespace bihm {

// ---------------------------------------------------------------- layers

// out (n, units) = x w + bias.
static void affine(const float* x, const float* w, const float* bias, npy_intp n, npy_intp inputs,
                   npy_intp units, float* out) {
    SingleThreadedBlas guard;
    const Blocks blocks = row_blocks(n, units);
#pragma omp parallel num_threads(team_size((double)n * units * inputs))
    {
        RowProducts product(w, inputs, units, blocks.size);
#pragma omp for schedule(static)
        for (npy_intp block = 0; block < blocks.count; ++block) {
            const Range rows = blocks[block];
            product(x + rows.begin * inputs, rows.end - rows.begin, out + rows.begin * units);
            for (npy_intp i = rows.begin; i < rows.end; ++i)
                for (npy_intp j = 0; j < units; ++j) out[i * units + j] += bias[j];
        }
    }
}

// Draws `repeats` samples for each of `n` inputs. With weights, logits = x w + bias, made block by
// block; without, x holds the logits themselves. `residual` has a row a sample, `mean` a row an
// input; either may be null. Returns false where memory ran out.
static bool sample_layer(const float* x, const float* w, const float* bias, npy_intp n,
                         npy_intp inputs, npy_intp units, npy_intp repeats, Key key,
                         float* sample, float* log_q, float* residual, float* mean) {
    bool ok = true;
    SingleThreadedBlas guard;
    const double work = (double)n * units * ((w ? inputs : 0) + 16.0 * repeats);
    const Blocks blocks = row_blocks(n, units);
    const bool shared = repeats > 1 || mean;
#pragma omp parallel num_threads(team_size(work)) reduction(&& : ok)
    {
        float* logits = w ? scratch(blocks.size * units) : nullptr;
        float* own = shared && !mean ? scratch(units) : nullptr;
        RowProducts product(w, inputs, units, blocks.size);
        ok = (!w || logits) && (!shared || mean || own);
#pragma omp for schedule(static)
        for (npy_intp block = 0; block < blocks.count; ++block) {
            const Range rows = blocks[block];
            if (!ok) continue;
            if (w) product(x + rows.begin * inputs, rows.end - rows.begin, logits);
            for (npy_intp i = rows.begin; i < rows.end; ++i) {
                const float* l = w ? logits + (i - rows.begin) * units : x + i * units;
                float* p = mean ? mean + i * units : own;
                const float known = shared ? probability_row(l, bias, (int)units, p) : 0.0f;
                for (npy_intp row = i * repeats; row < (i + 1) * repeats; ++row)
                    log_q[row] = sample_row(l, bias, p, known, (int)units, key, (uint32_t)row,
                                            sample + row * units,
                                            residual ? residual + row * units : nullptr);
            }
        }
        std::free(logits);
        std::free(own);
    }
    return ok;
}

// Log-probability of `values` (a row for every `repeats` rows of h) under the layer.
static bool score_layer(const float* values, const float* h, const float* w, const float* bias,
                        npy_intp n, npy_intp inputs, npy_intp units, npy_intp repeats,
                        float* log_p, float* residual) {
    bool ok = true;
    SingleThreadedBlas guard;
    const double work = (double)n * units * ((w ? inputs : 0) + 8.0);
    const Blocks blocks = row_blocks(n, units);
#pragma omp parallel num_threads(team_size(work)) reduction(&& : ok)
    {
        const bool own = w && !residual;      // training writes logits where residuals will stand
        float* buffer = own ? scratch(blocks.size * units) : nullptr;
        ok = !own || buffer;
        RowProducts product(w, inputs, units, blocks.size);
#pragma omp for schedule(static)
        for (npy_intp block = 0; block < blocks.count; ++block) {
            const Range rows = blocks[block];
            if (!ok) continue;
            float* logits = own ? buffer : w ? residual + rows.begin * units : nullptr;
            if (w) product(h + rows.begin * inputs, rows.end - rows.begin, logits);
            for (npy_intp i = rows.begin; i < rows.end; ++i) {
                const float* l = w ? logits + (i - rows.begin) * units : h + i * units;
                log_p[i] = score_row(l, bias, values + (i / repeats) * units, (int)units,
                                     residual ? residual + i * units : nullptr);
            }
        }
        std::free(buffer);
    }
    return ok;
}

// out (rows, width) = diag(weight) in, by this thread's share of the rows.
static inline void scale_rows(const float* in, const float* weight, npy_intp rows, npy_intp width,
                              float* out) {
#pragma omp for schedule(static)
    for (npy_intp i = 0; i < rows; ++i) {
        const float scale = weight[i];
        for (npy_intp j = 0; j < width; ++j) out[i * width + j] = scale * in[i * width + j];
    }
}

// bias (units) += weight^T r, by this thread's share of the columns.
static inline void add_to_bias(const float* r, const float* weight, npy_intp rows, npy_intp units,
                               const Blocks& columns, float* bias) {
#pragma omp for schedule(static) nowait
    for (npy_intp block = 0; block < columns.count; ++block) {
        const Range mine = columns[block];
        for (npy_intp i = 0; i < rows; ++i)
            for (npy_intp j = mine.begin; j < mine.end; ++j)
                bias[j] += weight[i] * r[i * units + j];
    }
}

// gradient (inputs, units) = a^T diag(weight) r for a binary a, by tables of sums of the rows of r.
// A thread makes its share of the columns. Returns false where memory ran out.
static bool table_gradient(const float* a, const float* r, const float* weight, npy_intp n,
                           npy_intp inputs, npy_intp units, float* gradient) {
    uint32_t* codes = (uint32_t*)std::malloc(passes_over(n) * inputs * sizeof(uint32_t));
    bool ok = codes;
#pragma omp parallel num_threads(team_size((double)n * units * inputs)) reduction(&& : ok)
    {
        const TableSpace space(inputs);
        ok = codes && space.ok();
#pragma omp for schedule(static)
        for (npy_intp pass = 0; pass < passes_over(n); ++pass)
            if (codes) codes_of_columns(a, n, inputs, pass * TERMS, codes + pass * inputs);
#pragma omp for schedule(dynamic)
        for (npy_intp at = 0; at < units; at += PANEL)
            if (ok) table_product(codes, inputs, r, weight, n, units, at, space, gradient);
    }
    std::free(codes);
    return ok;
}

// The same, and bias (units) = weight^T r, where neighbouring rows of a are alike. Returns false where
// they are not, or where memory ran out.
static bool changed_gradient(const float* a, const float* r, const float* weight, npy_intp n,
                             npy_intp inputs, npy_intp units, float* gradient, float* bias) {
    Changes changes(n, inputs, changes_worth(n, inputs));
    if (!changes.read(a, n, inputs)) return false;
    bool ok = true;
#pragma omp parallel num_threads(team_size((double)n * units * inputs)) reduction(&& : ok)
    {
        float* panel = scratch(inputs * PANEL);
        ok = panel;
#pragma omp for schedule(dynamic)
        for (npy_intp at = 0; at < units; at += PANEL)
            if (ok) changes_gradient(changes, r, weight, inputs, units, at, panel, gradient, bias);
        std::free(panel);
    }
    return ok;
}

// The same by BLAS: the narrower of a and r is scaled, then panels of the wider one's columns are
// multiplied with it.
static bool dense_gradient(const float* a, const float* r, const float* weight, npy_intp n,
                           npy_intp inputs, npy_intp units, float* gradient) {
    SingleThreadedBlas guard;
    const double work = (double)n * units * inputs;
    const bool wide_output = units >= inputs;
    const npy_intp wide = wide_output ? units : inputs, narrow = wide_output ? inputs : units;
    const npy_intp most = std::min<npy_intp>(n, BIHM_GRADIENT_ROWS);
    const Blocks panels(wide, 256, work > 2e5 && wide >= 32);
    float* scaled = scratch(most * narrow + 1);
    if (!scaled) return false;
#pragma omp parallel num_threads(team_size(work))
    for (npy_intp from = 0; from < n; from += most) {
        const npy_intp rows = std::min(most, n - from);
        const float *a_part = a + from * inputs, *r_part = r + from * units;
        scale_rows(wide_output ? a_part : r_part, weight + from, rows, narrow, scaled);
        const float one = 1.0f, beta = from == 0 ? 0.0f : 1.0f;
        const int k = (int)rows, ld_a = (int)inputs, ld_r = (int)units;
#pragma omp for schedule(static)
        for (npy_intp panel = 0; panel < panels.count; ++panel) {
            const Range mine = panels[panel];
            const int width = (int)(mine.end - mine.begin);
            if (wide_output)
                sgemm_("N", "T", &width, &ld_a, &k, &one, r_part + mine.begin, &ld_r, scaled,
                       &ld_a, &beta, gradient + mine.begin, &ld_r);
            else
                sgemm_("N", "T", &ld_r, &width, &k, &one, scaled, &ld_r, a_part + mine.begin,
                       &ld_a, &beta, gradient + mine.begin * units, &ld_r);
        }
    }
    std::free(scaled);
    return true;
}

// gradient (inputs, units) = a^T diag(weight) r and bias gradient (units) = weight^T r.
static bool weighted_gradient(const float* a, const float* r, const float* weight, npy_intp n,
                              npy_intp inputs, npy_intp units, float* gradient, float* bias) {
    const bool binary = inputs >= 2 * BITS && worth_tables(inputs, units) && n > 0 &&
                        all_binary(a, n * inputs);
    if (binary && changed_gradient(a, r, weight, n, inputs, units, gradient, bias)) return true;
    const double size = (double)n * inputs;
    const Blocks columns(units, 256, size * units > 2e5 && units >= 32);
    std::fill(bias, bias + units, 0.0f);
    if (n == 0) std::fill(gradient, gradient + inputs * units, 0.0f);
#pragma omp parallel num_threads(team_size((double)n * units))
    add_to_bias(r, weight, n, units, columns, bias);
    if (binary) return table_gradient(a, r, weight, n, inputs, units, gradient);
    return dense_gradient(a, r, weight, n, inputs, units, gradient);
}

// For a layer drawn `repeats` times from one mean: r (n, units) = sum_k weight (mean - sample).
static void summed_residual(const float* mean, const float* sample, const float* weight,
                            npy_intp n, npy_intp units, npy_intp repeats, float* r) {
#pragma omp parallel num_threads(team_size((double)n * repeats * units * 2))
    {
        const Range mine = share(n, 1);
        for (npy_intp i = mine.begin; i < mine.end; ++i) {
            float total = 0.0f;
            float* out = r + i * units;
            std::fill(out, out + units, 0.0f);
            for (npy_intp k = 0; k < repeats; ++k) {
                const float scale = weight[i * repeats + k];
                const float* h = sample + (i * repeats + k) * units;
                total += scale;
                for (npy_intp j = 0; j < units; ++j) out[j] -= scale * h[j];
            }
            for (npy_intp j = 0; j < units; ++j) out[j] += total * mean[i * units + j];
        }
    }
}

// means (columns) = the mean of the rows of a (rows, columns). A thread sums its share of the columns.
static void column_means(const float* a, npy_intp rows, npy_intp columns, float* means) {
    const float scale = rows ? 1.0f / (float)rows : 0.0f;
#pragma omp parallel num_threads(team_size((double)rows * columns))
    {
        const Range mine = share(columns, 16);
        std::fill(means + mine.begin, means + mine.end, 0.0f);
        for (npy_intp i = 0; i < rows; ++i) {
            const float* row = a + i * columns;
#pragma omp simd
            for (npy_intp j = mine.begin; j < mine.end; ++j) means[j] += row[j];
        }
        for (npy_intp j = mine.begin; j < mine.end; ++j) means[j] *= scale;
    }
}

// ---------------------------------------------------------------- Adam (Kingma and Ba, 2015)

struct AdamSettings {
    float rate, decay1, rest1, decay2, rest2, epsilon, l1, l2, average_weight;
    bool proximal;
};

// The columns `mine` of one row; `centre` is the mean of this row's input.
template <bool Proximal, bool Centred, bool Averaged>
static inline void adam_row(float* w, float* first, float* second, float* average,
                            const float* gradient, Range mine, const AdamSettings& s,
                            float centre, const float* bias_gradient, float* shift) {
    const float inside = Proximal ? 0.0f : s.l1;
#pragma omp simd
    for (npy_intp j = mine.begin; j < mine.end; ++j) {
        const float old = w[j];
        const float sign = (float)(old > 0.0f) - (float)(old < 0.0f);
        float g = gradient[j];
        if (Centred) g -= centre * bias_gradient[j];
        g += inside * sign + s.l2 * old;
        const float m = s.decay1 * first[j] + s.rest1 * g;
        const float v = s.decay2 * second[j] + s.rest2 * g * g;
        float now = old - s.rate * m / (__builtin_sqrtf(v) + s.epsilon);
        if (Proximal)
            now = __builtin_copysignf(std::max(__builtin_fabsf(now) - s.l1, 0.0f), now);
        first[j] = m;
        second[j] = v;
        w[j] = now;
        if (Centred) shift[j] += centre * (now - old);
        if (Averaged) average[j] += s.average_weight * (now - average[j]);
    }
}

template <bool Proximal, bool Centred, bool Averaged>
static void adam_rows(float* w, float* first, float* second, float* average, const float* gradient,
                      npy_intp rows, npy_intp columns, const AdamSettings& s, const float* centre,
                      const float* bias_gradient, float* shift, npy_intp full_rows) {
#pragma omp parallel num_threads(team_size((double)rows * columns * 16))
    {
        const Range mine = share(columns, 16);
        for (npy_intp i = 0; i < rows; ++i) {
            const npy_intp at = i * columns;
            const Range used = {std::max(mine.begin, i - full_rows + 1), mine.end};
            adam_row<Proximal, Centred, Averaged>(w + at, first + at, second + at,
                Averaged ? average + at : nullptr, gradient + at, used, s,
                Centred ? centre[i] : 0.0f, bias_gradient, shift);
        }
    }
}

// One step on w (rows, columns), its moments and, where given, its average, in one pass. With
// `centre` (rows), the gradient is gradient - centre bias_gradient^T, and shift (columns) becomes
// centre^T (new w - old w). Without it, `shift` where given is subtracted from the new w: the
// bias's share in the step of its weights. The rows from `full_rows` on are strictly upper triangular.
static bool adam(float* w, float* first, float* second, float* average, const float* gradient,
                 npy_intp rows, npy_intp columns, const AdamSettings& s, const float* centre,
                 const float* bias_gradient, float* shift, npy_intp full_rows) {
#define BIHM_ADAM(P, C, A) adam_rows<P, C, A>(w, first, second, average, gradient, rows, columns, \
                                              s, centre, bias_gradient, shift, full_rows)
    if (centre) {
        std::fill(shift, shift + columns, 0.0f);
        if (s.proximal) average ? BIHM_ADAM(true, true, true) : BIHM_ADAM(true, true, false);
        else average ? BIHM_ADAM(false, true, true) : BIHM_ADAM(false, true, false);
        return true;
    }
    const bool averaged = average && !shift;
    if (s.proximal) averaged ? BIHM_ADAM(true, false, true) : BIHM_ADAM(true, false, false);
    else averaged ? BIHM_ADAM(false, false, true) : BIHM_ADAM(false, false, false);
#undef BIHM_ADAM
    if (shift)
        for (npy_intp j = 0; j < columns; ++j) {
            w[j] -= shift[j];
            if (average) average[j] += s.average_weight * (w[j] - average[j]);
        }
    return true;
}

}  // namespace bihm
