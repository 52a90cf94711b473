// Annealed importance sampling of a restricted Boltzmann machine. Follows layers.h.

namespace bihm {

static inline void scale(const float* in, npy_intp n, float by, float* out) {
    for (npy_intp i = 0; i < n; ++i) out[i] = by * in[i];
}

// log weights of `chains` chains over `steps` inverse temperatures; w (visible, hidden) and its
// transpose; uses the counters `counter` ... `counter` + 2 * steps.
static bool annealed_weights(const float* w, const float* transposed, const float* b,
                             const float* c, npy_intp visible, npy_intp hidden, npy_intp chains,
                             npy_intp steps, int64_t seed, int64_t counter, float* log_weights) {
    const npy_intp widest = std::max(visible, hidden);
    float* memory = scratch(chains * (visible + 2 * hidden + 2) + chains * widest + 2 * widest);
    double* total = (double*)std::calloc(chains, sizeof(double));
    if (!memory || !total) { std::free(memory); std::free(total); return false; }
    float *v = memory, *a = v + chains * visible, *h = a + chains * hidden,
        *logits = h + chains * hidden, *unused = logits + chains * widest,
        *zeros = unused + 2 * chains;
    std::fill(zeros, zeros + widest, 0.0f);
    bool ok = sample_layer(b, nullptr, nullptr, 1, visible, visible, chains, counter_key(seed, counter),
                           v, unused, nullptr, nullptr);
    for (npy_intp step = 1; ok && step <= steps; ++step) {
        affine(v, w, c, chains, visible, hidden, a);
        for (int side = 0; side < 2; ++side) {
            const float beta = (float)(step - 1 + side) / (float)steps;
            scale(a, chains * hidden, beta, logits);
            for (npy_intp i = 0; i < chains; ++i)        // minus the sum of softplus
                total[i] += (side ? -1.0 : 1.0) * score_row(logits + i * hidden, nullptr, zeros,
                                                            (int)hidden, nullptr);
        }
        if (step == steps) break;
        const float beta = (float)step / (float)steps;
        ok = sample_layer(logits, nullptr, nullptr, chains, hidden, hidden, 1,
                          counter_key(seed, counter + 2 * step - 1), h, unused, nullptr, nullptr);
        affine(h, transposed, zeros, chains, hidden, visible, logits);
        for (npy_intp i = 0; i < chains; ++i)
            for (npy_intp j = 0; j < visible; ++j)
                logits[i * visible + j] = beta * logits[i * visible + j] + b[j];
        ok = ok && sample_layer(logits, nullptr, nullptr, chains, visible, visible, 1,
                                counter_key(seed, counter + 2 * step), v, unused, nullptr, nullptr);
    }
    for (npy_intp i = 0; i < chains; ++i) log_weights[i] = (float)total[i];
    std::free(memory);
    std::free(total);
    return ok;
}

}  // namespace bihm
