// Matrix products for layers of binary units, and the threads that share them. Follows rows.h.
//
// A product with a matrix of zeros and ones is a sum of rows of the other matrix. Its rows are taken
// in groups of five: the 32 sums that a group can contribute are tabulated, and a row of the product
// is then one addition a group, in place of five multiplications and additions. That takes less than
// half the time of a BLAS product. Where the values are not binary, BLAS makes the product.

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

// ---------------------------------------------------------------- threads

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

static inline float* scratch(npy_intp floats) {
    void* memory = nullptr;
    return posix_memalign(&memory, 64, floats * sizeof(float)) ? nullptr : (float*)memory;
}

// The blocks that n rows (or columns) are cut into. They depend on the sizes alone, never on the
// number of threads that share them: so every product is the same call, rounded the same way.
struct Blocks {
    npy_intp count, size, n;
    Blocks(npy_intp n, npy_intp most, bool worth, npy_intp least = 8) : n(n) {
        count = worth ? (n + 4 * most - 1) / (4 * most) * 4 : 1;      // in fours: 2 or 4 threads
        count = std::max<npy_intp>(1, std::min(count, n / least));
        size = std::max<npy_intp>(8, ((n + count - 1) / count + 7) / 8 * 8);
        count = (n + size - 1) / size;
    }
    Range operator[](npy_intp i) const { return Range{i * size, std::min(n, (i + 1) * size)}; }
};

static inline Blocks row_blocks(npy_intp n, npy_intp width) {
    const npy_intp most = std::max<npy_intp>(
        16, std::min<npy_intp>(512, BIHM_BLOCK_FLOATS / std::max<npy_intp>(width, 1)));
    return Blocks(n, most, n * width > 8192, 48);                // tables want rows to serve
}

// ---------------------------------------------------------------- sums of tabulated rows

#ifdef __AVX512F__
typedef float vector __attribute__((vector_size(64)));
#else
typedef float vector __attribute__((vector_size(32)));
#endif
static const npy_intp LANES = sizeof(vector) / sizeof(float);
static const npy_intp PANEL = 64;                    // columns summed at a time, in registers
static const int BITS = 5, GROUPS = 4;               // tables of 32 KiB: they stay in the L1 cache
static const int ENTRIES = 1 << BITS, TERMS = BITS * GROUPS;

static inline npy_intp passes_over(npy_intp terms) { return (terms + TERMS - 1) / TERMS; }

// Where bit `term` of a pass stands in its code: a byte for each group.
static inline int code_shift(int term) { return 8 * (term / BITS) + term % BITS; }

static inline bool all_binary(const float* a, npy_intp n) {
    int32_t other = 0;
    for (npy_intp i = 0; i < n; ++i) other |= (a[i] != 0.0f) & (a[i] != 1.0f);
    return !other;
}

// codes (columns) of the pass whose terms are the rows `from` on of a (rows, columns).
static inline void codes_of_columns(const float* a, npy_intp rows, npy_intp columns, npy_intp from,
                                    uint32_t* codes) {
    std::fill(codes, codes + columns, 0u);
    for (npy_intp i = from; i < std::min(rows, from + TERMS); ++i) {
        const uint32_t bit = 1u << code_shift((int)(i - from));
        const float* row = a + i * columns;
        for (npy_intp j = 0; j < columns; ++j) codes[j] |= row[j] != 0.0f ? bit : 0u;
    }
}

// The nonzeros of up to 20 values as a code.
static inline uint32_t code_of_row(const float* a, npy_intp n) {
    uint32_t bits = 0;
    npy_intp j = 0;
#ifdef __AVX__
    for (; j + 8 <= n; j += 8)
        bits |= (uint32_t)__builtin_ia32_movmskps256((v8f)(load(a + j) != 0.0f)) << j;
#endif
    for (; j < n; ++j) bits |= (uint32_t)(a[j] != 0.0f) << j;
    return (bits & 31) | (bits >> 5 & 31) << 8 | (bits >> 10 & 31) << 16 | (bits >> 15 & 31) << 24;
}

// Tables of the sums of all subsets of each group of five rows of `source` (terms, columns), of
// which C vectors from column `at` on, `width` columns in all, are taken; row i times scale[i].
template <int C>
static inline void fill_tables(const float* source, const float* scale, npy_intp terms,
                               npy_intp columns, npy_intp at, npy_intp width, npy_intp from,
                               float* tables) {
    for (int group = 0; group < GROUPS; ++group) {
        vector* table = (vector*)(tables + group * ENTRIES * C * LANES);
        for (int c = 0; c < C; ++c) table[c] = vector{};
        for (int bit = 0; bit < BITS; ++bit) {
            const npy_intp i = from + group * BITS + bit;
            vector row[C] = {};
            if (i < terms) {
                std::memcpy(row, source + i * columns + at, width * sizeof(float));
                if (scale) for (int c = 0; c < C; ++c) row[c] *= scale[i];
            }
            const int half = 1 << bit;
            for (int entry = 0; entry < half; ++entry)
                for (int c = 0; c < C; ++c)
                    table[(half + entry) * C + c] = table[entry * C + c] + row[c];
        }
    }
}

// sums (count, C vectors) = [sums +] the entries that the codes (count) name, one of each table.
template <int C>
static inline void add_entries(const uint32_t* codes, npy_intp count, const float* tables, bool add,
                               float* sums) {
    for (npy_intp i = 0; i < count; ++i) {
        vector* to = (vector*)(sums + i * C * LANES);
        vector sum[C];
        for (int c = 0; c < C; ++c) sum[c] = add ? to[c] : vector{};
        for (int group = 0; group < GROUPS; ++group) {
            const npy_intp entry = group * ENTRIES + (codes[i] >> 8 * group & 255);
            const vector* from = (const vector*)(tables + entry * C * LANES);
            for (int c = 0; c < C; ++c) sum[c] += from[c];
        }
        for (int c = 0; c < C; ++c) to[c] = sum[c];
    }
}

// The memory that one thread needs for `count` sums at a time.
struct TableSpace {
    float *tables, *sums;
    explicit TableSpace(npy_intp count)
        : tables(scratch(GROUPS * ENTRIES * PANEL)), sums(scratch(count * PANEL + 1)) {}
    TableSpace(const TableSpace&) = delete;
    ~TableSpace() { std::free(tables); std::free(sums); }
    bool ok() const { return tables && sums; }
};

template <int C>
static void table_panel(const uint32_t* codes, npy_intp count, const float* source,
                        const float* scale, npy_intp terms, npy_intp columns, npy_intp at,
                        npy_intp width, const TableSpace& space, float* out) {
    for (npy_intp pass = 0; pass < passes_over(terms); ++pass) {
        fill_tables<C>(source, scale, terms, columns, at, width, pass * TERMS, space.tables);
        add_entries<C>(codes + pass * count, count, space.tables, pass > 0, space.sums);
    }
    for (npy_intp i = 0; i < count; ++i)
        std::memcpy(out + i * columns + at, space.sums + i * C * LANES, width * sizeof(float));
}

// The columns from `at` on, at most PANEL of them, of out (count, columns) = B diag(scale) source,
// where the binary matrix B (count, terms) is given by its codes, (passes, count).
static void table_product(const uint32_t* codes, npy_intp count, const float* source,
                          const float* scale, npy_intp terms, npy_intp columns, npy_intp at,
                          const TableSpace& space, float* out) {
    const npy_intp width = std::min(PANEL, columns - at);
#define BIHM_PANEL(C) \
    case C: return table_panel<C>(codes, count, source, scale, terms, columns, at, width, space, out);
    switch ((width + LANES - 1) / LANES) {
        BIHM_PANEL(1) BIHM_PANEL(2) BIHM_PANEL(3) BIHM_PANEL(4)
        BIHM_PANEL(5) BIHM_PANEL(6) BIHM_PANEL(7) BIHM_PANEL(8)
    }
#undef BIHM_PANEL
}

// ---------------------------------------------------------------- products

// Below this number of multiplications a row BLAS is the faster one.
static inline bool worth_tables(npy_intp inputs, npy_intp units) { return inputs * units >= 512; }

// c (rows, n) = a (rows, k) times w (k, n), all row by row in memory.
static inline void dense_product(const float* a, const float* w, float* c, npy_intp rows, npy_intp k,
                           npy_intp n) {
    const int rows_ = (int)rows, k_ = (int)k, n_ = (int)n;
    const float one = 1.0f, zero = 0.0f;
    sgemm_("N", "N", &n_, &rows_, &k_, &one, w, &n_, a, &k_, &zero, c, &n_);
}

// Products of blocks of rows with weights (inputs, units), for one thread. A block is made in one
// way or the other by its own values alone, so it comes out the same whoever makes it.
class RowProducts {
    const float* weights;
    npy_intp inputs, units;
    bool tabulate;
    TableSpace space;
    uint32_t* codes;
public:
    RowProducts(const float* weights, npy_intp inputs, npy_intp units, npy_intp block_rows)
        : weights(weights), inputs(inputs), units(units),
          tabulate(weights && worth_tables(inputs, units)), space(tabulate ? block_rows : 0),
          codes(tabulate ? (uint32_t*)std::malloc((passes_over(inputs) * block_rows + 1) *
                                                  sizeof(uint32_t)) : nullptr) {}
    RowProducts(const RowProducts&) = delete;
    ~RowProducts() { std::free(codes); }

    // out (rows, units) = a (rows, inputs) times the weights.
    void operator()(const float* a, npy_intp rows, float* out) {
        if (!tabulate || rows < ENTRIES || !space.ok() || !codes || !all_binary(a, rows * inputs))
            return dense_product(a, weights, out, rows, inputs, units);
        for (npy_intp i = 0; i < rows; ++i)
            for (npy_intp pass = 0, from = 0; from < inputs; ++pass, from += TERMS)
                codes[pass * rows + i] = code_of_row(a + i * inputs + from,
                                                     std::min<npy_intp>(TERMS, inputs - from));
        for (npy_intp at = 0; at < units; at += PANEL)
            table_product(codes, rows, weights, nullptr, inputs, units, at, space, out);
    }
};

}  // namespace bihm
