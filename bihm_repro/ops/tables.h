// Products with a matrix of zeros and ones by tables of sums. Follows threads.h.
//
// Such a product is a sum of rows of the other matrix. Its rows are taken in groups of five: the 32
// sums that a group can contribute are tabulated, and a row of the product is then one addition a
// group, in place of five multiplications and additions. That takes less than half the time of a
// BLAS product.

namespace bihm {

static const int BITS = 5, GROUPS = 4;               // tables of 32 KiB: they stay in the L1 cache
static const int ENTRIES = 1 << BITS, TERMS = BITS * GROUPS;

static inline npy_intp passes_over(npy_intp terms) { return (terms + TERMS - 1) / TERMS; }

// Where bit `term` of a pass stands in its code: a byte for each group.
static inline int code_shift(int term) { return 8 * (term / BITS) + term % BITS; }

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
                copy_floats((float*)row, source + i * columns + at, width);
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
        copy_floats(out + i * columns + at, space.sums + i * C * LANES, width);
}

// The columns from `at` on, at most PANEL of them, of out (count, columns) = B diag(scale) source,
// where the binary matrix B (count, terms) is given by its codes, (passes, count).
static void table_product(const uint32_t* codes, npy_intp count, const float* source,
                          const float* scale, npy_intp terms, npy_intp columns, npy_intp at,
                          const TableSpace& space, float* out) {
    const npy_intp width = std::min(PANEL, columns - at);
    BIHM_PANELS(table_panel, codes, count, source, scale, terms, columns, at, width, space, out)
}

}  // namespace bihm
