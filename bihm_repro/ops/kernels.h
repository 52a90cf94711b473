// Bernoulli layers in one pass over memory, shared by all fused Ops.
//
// A row of logits l becomes, in registers, the probability s(l), a sample or the comparison with
// given values, the row's log-probability and the residual s(l) - value. Vectors are GCC's own
// (eight floats), so the same code is AVX2 where the machine has it and SSE or NEON where not.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <algorithm>
#ifdef _OPENMP
#include <omp.h>
#endif

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*);
void openblas_set_num_threads(int) __attribute__((weak));
int openblas_get_num_threads(void) __attribute__((weak));
}

namespace bihm {

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));

// ---------------------------------------------------------------- vectors

static inline v8f load(const float* p) { v8f v; std::memcpy(&v, p, sizeof v); return v; }
static inline void store(float* p, v8f v) { std::memcpy(p, &v, sizeof v); }
static inline v8f splat(float a) { return v8f{a, a, a, a, a, a, a, a}; }
static inline v8f load_part(const float* p, int n, float fill) {
    v8f v = splat(fill);
    std::memcpy(&v, p, n * sizeof(float));
    return v;
}
static inline void store_part(float* p, v8f v, int n) { std::memcpy(p, &v, n * sizeof(float)); }
static inline v8f select(v8i mask, v8f yes, v8f no) {
    return (v8f)(((v8i)yes & mask) | ((v8i)no & ~mask));
}

// exp(x) for x <= 0: x = n log 2 + r, a polynomial in r, 2^n put into the exponent.
static inline v8f exp_of_negative(v8f x) {
    x = select(x < -87.0f, splat(-87.0f), x);
    const v8f shifter = splat(12582912.0f);                  // 1.5 * 2^23 rounds to an integer
    v8f n = (x * 1.44269504088896341f + shifter) - shifter;
    v8f r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    v8f y = splat(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    v8i exponent = (v8i)(n + shifter) - (v8i)shifter;        // the integer itself
    return y * (v8f)((exponent + 127) << 23);
}

// ---------------------------------------------------------------- random numbers

struct Key { uint32_t a, b; };

template <typename U>
static inline void threefry(U& x0, U& x1, Key key) {
    const uint32_t schedule[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
    x0 += schedule[0];
    x1 += schedule[1];
#define BIHM_ROUND(rotation) \
    x0 += x1; x1 = (x1 << rotation) | (x1 >> (32 - rotation)); x1 ^= x0;
#define BIHM_INJECT(group) \
    x0 += schedule[(group + 1) % 3]; x1 += schedule[(group + 2) % 3] + (group + 1u);
    BIHM_ROUND(13) BIHM_ROUND(15) BIHM_ROUND(26) BIHM_ROUND(6) BIHM_INJECT(0)
    BIHM_ROUND(17) BIHM_ROUND(29) BIHM_ROUND(16) BIHM_ROUND(24) BIHM_INJECT(1)
    BIHM_ROUND(13) BIHM_ROUND(15) BIHM_ROUND(26) BIHM_ROUND(6) BIHM_INJECT(2)
    BIHM_ROUND(17) BIHM_ROUND(29) BIHM_ROUND(16) BIHM_ROUND(24) BIHM_INJECT(3)
    BIHM_ROUND(13) BIHM_ROUND(15) BIHM_ROUND(26) BIHM_ROUND(6) BIHM_INJECT(4)
#undef BIHM_ROUND
#undef BIHM_INJECT
}

static inline Key draw_key(int64_t seed, int64_t draw) {
    Key key = {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)};
    uint32_t a = (uint32_t)draw, b = (uint32_t)((uint64_t)draw >> 32);
    threefry(a, b, key);
    return Key{a, b};
}

// Midpoints of 2^23 equal parts of (0, 1): neither end comes up.
static inline v8f to_uniform(v8u bits) {
    return (__builtin_convertvector((v8i)(bits >> 9), v8f) + 0.5f) * 1.1920928955078125e-7f;
}

// ---------------------------------------------------------------- a row's log-probability

// sum of log(1 + e) as the logarithm of a product: 1 + e lies in [1, 2], so a lane holds sixty
// factors with room to spare, and eight such lanes fit a double.
struct LogSum {
    v8f product = splat(1.0f);
    v8f linear = splat(0.0f);
    double logs = 0.0;
    int factors = 0;

    inline void multiply(v8f one_plus_e) {
        product *= one_plus_e;
        if (++factors == 60) flush();
    }
    inline void flush() {
        double all = 1.0;
        for (int j = 0; j < 8; ++j) all *= (double)product[j];
        logs += std::log(all);
        product = splat(1.0f);
        factors = 0;
    }
    inline double linear_total() const {
        double sum = 0.0;
        for (int j = 0; j < 8; ++j) sum += (double)linear[j];
        return sum;
    }
    inline float total() {
        flush();
        return (float)(linear_total() - logs);
    }
};

struct Sigmoid { v8f probability, one_plus_e; };

static inline Sigmoid sigmoid(v8f logit) {
    v8i positive = logit >= 0.0f;
    v8f e = exp_of_negative(select(positive, -logit, logit));
    v8f one_plus_e = 1.0f + e;
    v8f inverse = 1.0f / one_plus_e;
    return Sigmoid{select(positive, inverse, e * inverse), one_plus_e};
}

static inline v8f positive_part(v8f l) { return select(l > 0.0f, l, splat(0.0f)); }

// Where columns end in the middle of a vector, the missing logits are far negative and the missing
// values 0: probability 0, factor 1, term 0.
static const float ABSENT = -1e30f;

// Draws one row of `n` units from `logits` (+ bias where given); returns its log-probability.
// Where `probability` is given, probabilities come from there, and the sum of log(1 + e) that
// belongs to them is `known`: what a layer that is drawn many times from one row of logits shares.
static inline float sample_row(const float* logits, const float* bias, const float* probability,
                               float known, int n, Key key, uint32_t row, float* sample,
                               float* residual) {
    LogSum sum;
    const v8u lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int j = 0; j < n; j += 16) {
        v8u first = lanes + (uint32_t)(j / 2), second = lanes * 0u + row;
        threefry(first, second, key);
        for (int half = 0; half < 2; ++half) {
            const int at = j + 8 * half, width = n - at;
            if (width <= 0) break;
            const bool whole = width >= 8;
            const v8f u = to_uniform(half ? second : first);
            v8f l = whole ? load(logits + at) : load_part(logits + at, width, ABSENT);
            if (bias) l += whole ? load(bias + at) : load_part(bias + at, width, 0.0f);
            v8f p;
            if (probability) {
                p = whole ? load(probability + at) : load_part(probability + at, width, 0.0f);
            } else {
                const Sigmoid s = sigmoid(l);
                p = s.probability;
                sum.multiply(s.one_plus_e);
            }
            const v8f h = select(u < p, splat(1.0f), splat(0.0f));
            sum.linear += h * l - positive_part(l);
            if (whole) {
                store(sample + at, h);
                if (residual) store(residual + at, p - h);
            } else {
                store_part(sample + at, h, width);
                if (residual) store_part(residual + at, p - h, width);
            }
        }
    }
    return probability ? (float)sum.linear_total() - known : sum.total();
}

// The units' probabilities; returns the sum of log(1 + e) that belongs to them.
static inline float probability_row(const float* logits, const float* bias, int n,
                                    float* probability) {
    LogSum sum;
    for (int j = 0; j < n; j += 8) {
        const int width = std::min(8, n - j);
        v8f l = load_part(logits + j, width, ABSENT);
        if (bias) l += load_part(bias + j, width, 0.0f);
        const Sigmoid s = sigmoid(l);
        sum.multiply(s.one_plus_e);
        store_part(probability + j, s.probability, width);
    }
    return -sum.total();
}

// Log-probability of the given values; `residual` may be `logits`.
static inline float score_row(const float* logits, const float* bias, const float* values, int n,
                              float* residual) {
    LogSum sum;
    for (int j = 0; j < n; j += 8) {
        const int width = n - j;
        v8f l, v;
        if (width >= 8) {
            l = load(logits + j); v = load(values + j);
            if (bias) l += load(bias + j);
        } else {
            l = load_part(logits + j, width, ABSENT); v = load_part(values + j, width, 0.0f);
            if (bias) l += load_part(bias + j, width, 0.0f);
        }
        v8i positive = l >= 0.0f;
        const v8f e = exp_of_negative(select(positive, -l, l));
        const v8f one_plus_e = 1.0f + e;
        sum.multiply(one_plus_e);
        sum.linear += v * l - positive_part(l);
        if (residual) {
            const v8f inverse = 1.0f / one_plus_e;
            const v8f r = select(positive, inverse, e * inverse) - v;
            if (width >= 8) store(residual + j, r); else store_part(residual + j, r, width);
        }
    }
    return sum.total();
}

// ---------------------------------------------------------------- threads and products

// While it lives, BLAS calls are single-threaded: the Op's own threads each make their own.
class SingleThreadedBlas {
    int before;
public:
    SingleThreadedBlas() : before(0) {
        if (openblas_get_num_threads && openblas_set_num_threads) {
            before = openblas_get_num_threads();
            if (before != 1) openblas_set_num_threads(1);
        }
    }
    ~SingleThreadedBlas() { if (before > 1) openblas_set_num_threads(before); }
};

static inline int team_size(double work) {
#ifdef _OPENMP
    return work < 2e5 ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

static inline void team_position(int& position, int& size) {
#ifdef _OPENMP
    position = omp_get_thread_num(); size = omp_get_num_threads();
#else
    position = 0; size = 1;
#endif
}

struct Range { npy_intp begin, end; };

static inline Range share(npy_intp n, npy_intp grain) {
    int position, size;
    team_position(position, size);
    const npy_intp units = (n + grain - 1) / grain;
    return Range{std::min(n, grain * (units * position / size)),
                 std::min(n, grain * (units * (position + 1) / size))};
}

// c (rows, n) = a (rows, k) times w (k, n), all row by row in memory.
static inline void product(const float* a, const float* w, float* c, npy_intp rows, npy_intp k,
                           npy_intp n) {
    const int rows_ = (int)rows, k_ = (int)k, n_ = (int)n;
    const float one = 1.0f, zero = 0.0f;
    sgemm_("N", "N", &n_, &rows_, &k_, &one, w, &n_, a, &k_, &zero, c, &n_);
}

static inline float* scratch(npy_intp floats) {
    void* memory = nullptr;
    return posix_memalign(&memory, 64, floats * sizeof(float)) ? nullptr : (float*)memory;
}

// The blocks that n rows (or columns) are cut into. They depend on the sizes alone, never on the
// number of threads that share them: so every product is the same call, rounded the same way.
struct Blocks {
    npy_intp count, size, n;
    Blocks(npy_intp n, npy_intp most, bool worth) : n(n) {
        count = worth ? (n + 4 * most - 1) / (4 * most) * 4 : 1;      // in fours: 2 or 4 threads
        size = std::max<npy_intp>(8, ((n + count - 1) / count + 7) / 8 * 8);
        count = (n + size - 1) / size;
    }
    Range operator[](npy_intp i) const { return Range{i * size, std::min(n, (i + 1) * size)}; }
};

static inline Blocks row_blocks(npy_intp n, npy_intp width) {
    const npy_intp most = std::max<npy_intp>(
        16, std::min<npy_intp>(512, BIHM_BLOCK_FLOATS / std::max<npy_intp>(width, 1)));
    return Blocks(n, most, n * width > 8192);
}

// ---------------------------------------------------------------- layers

// out (n, units) = x w + bias.
static void affine(const float* x, const float* w, const float* bias, npy_intp n, npy_intp inputs,
                   npy_intp units, float* out) {
    SingleThreadedBlas guard;
    const Blocks blocks = row_blocks(n, units);
#pragma omp parallel for schedule(static) num_threads(team_size((double)n * units * inputs))
    for (npy_intp block = 0; block < blocks.count; ++block) {
        const Range rows = blocks[block];
        product(x + rows.begin * inputs, w, out + rows.begin * units, rows.end - rows.begin,
                inputs, units);
        for (npy_intp i = rows.begin; i < rows.end; ++i)
            for (npy_intp j = 0; j < units; ++j) out[i * units + j] += bias[j];
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
        ok = (!w || logits) && (!shared || mean || own);
#pragma omp for schedule(static)
        for (npy_intp block = 0; block < blocks.count; ++block) {
            const Range rows = blocks[block];
            if (!ok) continue;
            if (w) product(x + rows.begin * inputs, w, logits, rows.end - rows.begin, inputs,
                           units);
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
#pragma omp for schedule(static)
        for (npy_intp block = 0; block < blocks.count; ++block) {
            const Range rows = blocks[block];
            if (!ok) continue;
            float* logits = own ? buffer : w ? residual + rows.begin * units : nullptr;
            if (w) product(h + rows.begin * inputs, w, logits, rows.end - rows.begin, inputs,
                           units);
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

// gradient (inputs, units) = a^T diag(weight) r and bias gradient (units) = weight^T r.
// The narrower of a and r is scaled, then panels of the wider one's columns are multiplied with it.
static bool weighted_gradient(const float* a, const float* r, const float* weight, npy_intp n,
                              npy_intp inputs, npy_intp units, float* gradient, float* bias) {
    SingleThreadedBlas guard;
    const double work = (double)n * units * inputs;
    const bool wide_output = units >= inputs;
    const npy_intp wide = wide_output ? units : inputs, narrow = wide_output ? inputs : units;
    const npy_intp most = std::min<npy_intp>(n, BIHM_GRADIENT_ROWS);
    const Blocks panels(wide, 256, work > 2e5 && wide >= 32);
    const Blocks sums(units, 256, work > 2e5 && units >= 32);
    float* scaled = scratch(most * narrow + 1);
    if (!scaled) return false;
    std::fill(bias, bias + units, 0.0f);
    if (n == 0) std::fill(gradient, gradient + inputs * units, 0.0f);
#pragma omp parallel num_threads(team_size(work))
    for (npy_intp from = 0; from < n; from += most) {
        const npy_intp rows = std::min(most, n - from);
        const float *a_part = a + from * inputs, *r_part = r + from * units;
        const float* w_part = weight + from;
        scale_rows(wide_output ? a_part : r_part, w_part, rows, narrow, scaled);
#pragma omp for schedule(static) nowait
        for (npy_intp block = 0; block < sums.count; ++block) {
            const Range mine = sums[block];
            for (npy_intp i = 0; i < rows; ++i)
                for (npy_intp j = mine.begin; j < mine.end; ++j)
                    bias[j] += w_part[i] * r_part[i * units + j];
        }
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

// Adam (Kingma and Ba, 2015) with L1 and L2, in one pass over the parameter.
static void adam(float* parameter, float* first, float* second, const float* gradient, npy_intp n,
                 float rate, float decay1, float rest1, float decay2, float rest2, float epsilon,
                 float l1, float l2) {
#pragma omp parallel num_threads(team_size((double)n * 16))
    {
        const Range mine = share(n, 16);
#pragma omp simd
        for (npy_intp i = mine.begin; i < mine.end; ++i) {
            const float w = parameter[i];
            const float sign = (float)(w > 0.0f) - (float)(w < 0.0f);
            const float g = gradient[i] + l1 * sign + l2 * w;
            const float m = decay1 * first[i] + rest1 * g;
            const float v = decay2 * second[i] + rest2 * g * g;
            first[i] = m;
            second[i] = v;
            parameter[i] = w - rate * m / (__builtin_sqrtf(v) + epsilon);
        }
    }
}

}  // namespace bihm
