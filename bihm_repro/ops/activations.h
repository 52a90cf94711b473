// Activations of deterministic layers. Follows layers.h.

namespace bihm {

// tanh: a polynomial near 0, where (1 - e) / (1 + e) with e = exp(-2 |x|) would cancel.
static inline v8f tanh_of(v8f x) {
    const v8i negative = x < 0.0f;
    const v8f size = select(negative, -x, x);
    const v8f e = exp_of_negative(-2.0f * size);
    const v8f far = (1.0f - e) / (1.0f + e);
    const v8f z = x * x;
    v8f y = splat(-5.70498872745e-3f);
    y = y * z + 2.06390887954e-2f;
    y = y * z - 5.37397155531e-2f;
    y = y * z + 1.33314422036e-1f;
    y = y * z - 3.33332819422e-1f;
    return select(size < 0.625f, x + x * (z * y), select(negative, -far, far));
}

static void hyperbolic_tangent(const float* x, npy_intp rows, npy_intp columns, float* out) {
#pragma omp parallel num_threads(team_size((double)rows * columns * 16))
    {
        const Range mine = share(rows * columns, 8);
        npy_intp i = mine.begin;
        for (; i + 8 <= mine.end; i += 8) store(out + i, tanh_of(load(x + i)));
        if (i < mine.end) {
            const int width = (int)(mine.end - i);
            store_part(out + i, tanh_of(load_part(x + i, width, 0.0f)), width);
        }
    }
}

}  // namespace bihm
