// One row of Bernoulli units in one pass over memory: vectors, random numbers, log-probabilities.
//
// A row of logits l becomes, in registers, the probability s(l), a sample or the comparison with
// given values, the row's log-probability and the residual s(l) - value. Vectors are GCC's own
// (eight floats), so the same code is AVX2 where the machine has it and SSE or NEON where not.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <algorithm>

namespace bihm {

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));

// ---------------------------------------------------------------- vectors

static inline v8f load(const float* p) { v8f v; std::memcpy(&v, p, sizeof v); return v; }
static inline void store(float* p, v8f v) { std::memcpy(p, &v, sizeof v); }
static inline v8f splat(float a) { return v8f{a, a, a, a, a, a, a, a}; }
static inline v8f select(v8i mask, v8f yes, v8f no) {
    return (v8f)(((v8i)yes & mask) | ((v8i)no & ~mask));
}

// Copies n < 8 floats without a call, which a memcpy of unknown size would be.
static inline void copy_part(float* to, const float* from, int n) {
    if (n & 4) { std::memcpy(to, from, 4 * sizeof(float)); to += 4; from += 4; }
    if (n & 2) { std::memcpy(to, from, 2 * sizeof(float)); to += 2; from += 2; }
    if (n & 1) *to = *from;
}
static inline void copy_floats(float* to, const float* from, npy_intp n) {
    npy_intp i = 0;
    for (; i + 8 <= n; i += 8) store(to + i, load(from + i));
    copy_part(to + i, from + i, (int)(n - i));
}
static inline v8f load_part(const float* p, int n, float fill) {
#ifdef __AVX__
    const v8i mask = v8i{0, 1, 2, 3, 4, 5, 6, 7} < n;
    return select(mask, (v8f)__builtin_ia32_maskloadps256((const v8f*)p, mask), splat(fill));
#else
    v8f v = splat(fill);
    if (n >= 8) return load(p);
    copy_part((float*)&v, p, n);
    return v;
#endif
}
static inline void store_part(float* p, v8f v, int n) {
    if (n >= 8) store(p, v);
    else copy_part(p, (const float*)&v, n);
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

static inline Key counter_key(int64_t seed, int64_t counter) {
    Key key = {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)};
    uint32_t a = (uint32_t)counter, b = (uint32_t)((uint64_t)counter >> 32);
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
            const bool full = width >= 8;
            const v8f u = to_uniform(half ? second : first);
            v8f l = full ? load(logits + at) : load_part(logits + at, width, ABSENT);
            if (bias) l += full ? load(bias + at) : load_part(bias + at, width, 0.0f);
            v8f p;
            if (probability) {
                p = full ? load(probability + at) : load_part(probability + at, width, 0.0f);
            } else {
                const Sigmoid s = sigmoid(l);
                p = s.probability;
                sum.multiply(s.one_plus_e);
            }
            const v8f h = select(u < p, splat(1.0f), splat(0.0f));
            sum.linear += h * l - positive_part(l);
            if (full) {
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

}  // namespace bihm
