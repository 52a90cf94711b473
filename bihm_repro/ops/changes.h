// Products with a matrix of zeros and ones whose rows differ little from the row before. Follows
// tables.h.
//
// The K samples of an example are neighbouring rows, and most units of a trained layer are the same
// in all of them. A row of a product with w is then the row before, plus the rows of w whose units
// were switched on, less those whose units were switched off.
//
// For a gradient sum_n a_n s_n^T it is the sum by parts, sum_n (a_n - a_{n-1}) S_n^T, where S_n is
// the sum of s_n and all rows after it. Both start again at the first row of a run: where fewer
// units are on than were switched, and after RUN rows, which bounds the rounding errors.

namespace bihm {

static const npy_intp RUN = 64;

// The units that each row of a binary matrix switches on and off.
class Changes {
    npy_intp count, room;
    int32_t *units, *starts;
    uint64_t *bits, *before;
    bool* first;

    static void add_units(uint64_t set, npy_intp from, int32_t*& to) {
        for (; set; set &= set - 1) *to++ = (int32_t)(from + __builtin_ctzll(set));
    }
public:
    // For at most `rows` rows of `inputs` columns with `room` changes.
    Changes(npy_intp rows, npy_intp inputs, npy_intp room)
        : count(0), room(room), units((int32_t*)std::malloc((room + 1) * sizeof(int32_t))),
          starts((int32_t*)std::malloc((2 * rows + 1) * sizeof(int32_t))),
          bits((uint64_t*)std::malloc((inputs / 64 + 1) * sizeof(uint64_t))),
          before((uint64_t*)std::malloc((inputs / 64 + 1) * sizeof(uint64_t))),
          first((bool*)std::malloc(rows + 1)) {}
    Changes(const Changes&) = delete;
    ~Changes() {
        for (void* memory : {(void*)units, (void*)starts, (void*)bits, (void*)before, (void*)first})
            std::free(memory);
    }

    npy_intp rows() const { return count; }
    bool begins(npy_intp row) const { return first[row]; }
    const int32_t* on(npy_intp row) const { return units + starts[2 * row]; }
    const int32_t* off(npy_intp row) const { return units + starts[2 * row + 1]; }
    const int32_t* end(npy_intp row) const { return units + starts[2 * row + 2]; }

    // Returns false where a (rows, inputs) has too many changes, or where memory ran out.
    bool read(const float* a, npy_intp rows, npy_intp inputs) {
        if (!units || !starts || !bits || !before || !first) return false;
        const npy_intp words = inputs / 64 + 1;
        int32_t* to = units;
        npy_intp length = 0;
        for (npy_intp i = 0; i < rows; ++i, ++length) {
            std::swap(bits, before);
            bits_of_row(a + i * inputs, inputs, bits);
            npy_intp active = 0, switched = 0;
            for (npy_intp w = 0; w < words; ++w) {
                active += __builtin_popcountll(bits[w]);
                if (i) switched += __builtin_popcountll(bits[w] ^ before[w]);
            }
            first[i] = i == 0 || length == RUN || active <= switched;
            if ((to - units) + (first[i] ? active : switched) > room) return false;
            if (first[i]) length = 0;
            starts[2 * i] = (int32_t)(to - units);
            for (npy_intp w = 0; w < words; ++w)
                add_units(first[i] ? bits[w] : bits[w] & ~before[w], 64 * w, to);
            starts[2 * i + 1] = (int32_t)(to - units);
            if (!first[i])
                for (npy_intp w = 0; w < words; ++w) add_units(before[w] & ~bits[w], 64 * w, to);
        }
        starts[2 * rows] = (int32_t)(to - units);
        count = rows;
        return true;
    }

    // The nonzeros of n values, 64 to a word.
    static void bits_of_row(const float* a, npy_intp n, uint64_t* bits) {
        std::fill(bits, bits + n / 64 + 1, (uint64_t)0);
        npy_intp j = 0;
#ifdef __AVX__
        for (; j + 8 <= n; j += 8)
            bits[j / 64] |= (uint64_t)__builtin_ia32_movmskps256((v8f)(load(a + j) != 0.0f)) << j % 64;
#endif
        for (; j < n; ++j) bits[j / 64] |= (uint64_t)(a[j] != 0.0f) << j % 64;
    }
};

// How many changes cost as much as tables do, for a matrix of `rows` rows.
static inline npy_intp changes_worth(npy_intp rows, npy_intp inputs) { return rows * inputs / 8; }

// sum += Sign row
template <int Sign, int C>
static inline void add_row(vector* sum, const float* row) {
    for (int c = 0; c < C; ++c) {
        vector v;
        std::memcpy(&v, row + c * LANES, sizeof v);
        sum[c] = Sign > 0 ? sum[c] + v : sum[c] - v;
    }
}

// row += Sign sum
template <int Sign, int C>
static inline void add_to_row(float* row, const vector* sum) {
    for (int c = 0; c < C; ++c) {
        vector v;
        std::memcpy(&v, row + c * LANES, sizeof v);
        v = Sign > 0 ? v + sum[c] : v - sum[c];
        std::memcpy(row + c * LANES, &v, sizeof v);
    }
}

// A panel of C vectors of a matrix (rows, columns), from column `at` on. A panel whose last vector
// is not full is worked on in `space`, (rows, C vectors).
template <int C>
struct Panel {
    npy_intp rows, columns, at, width, stride;
    bool full;
    Panel(npy_intp rows, npy_intp columns, npy_intp at, npy_intp width)
        : rows(rows), columns(columns), at(at), width(width), full(width == C * LANES) {
        stride = full ? columns : C * LANES;
    }
    void get(const float* from, vector* row) const {
        if (full) { std::memcpy(row, from, C * sizeof(vector)); return; }
        row[C - 1] = vector{};
        copy_floats((float*)row, from, width);
    }
    void put(float* to, const vector* row) const {
        if (full) std::memcpy(to, row, C * sizeof(vector));
        else copy_floats(to, (const float*)row, width);
    }
    const float* copied(const float* matrix, float* space) const {
        if (full) return matrix + at;
        for (npy_intp i = 0; i < rows; ++i) {
            vector row[C];
            get(matrix + i * columns + at, row);
            std::memcpy(space + i * stride, row, sizeof row);
        }
        return space;
    }
};

// The panel of out (rows, columns) = B source, where `changes` are those of the binary matrix B.
template <int C>
static void changes_panel(const Changes& changes, const float* source, npy_intp terms,
                          npy_intp columns, npy_intp at, npy_intp width, float* space, float* out) {
    const Panel<C> panel(terms, columns, at, width);
    const float* from = panel.copied(source, space);
    const npy_intp stride = panel.stride;
    vector sum[C] = {};
    for (npy_intp i = 0; i < changes.rows(); ++i) {
        if (changes.begins(i)) for (int c = 0; c < C; ++c) sum[c] = vector{};
        const int32_t *unit = changes.on(i), *off = changes.off(i), *end = changes.end(i);
        for (; unit < off; ++unit) add_row<1, C>(sum, from + *unit * stride);
        for (; unit < end; ++unit) add_row<-1, C>(sum, from + *unit * stride);
        panel.put(out + i * columns + at, sum);
    }
}

// The panel of gradient (inputs, columns) = B^T diag(weight) r, and of bias (columns) = weight^T r.
template <int C>
static void changes_gradient_panel(const Changes& changes, const float* r, const float* weight,
                                   npy_intp inputs, npy_intp columns, npy_intp at, npy_intp width,
                                   float* space, float* gradient, float* bias) {
    const Panel<C> panel(inputs, columns, at, width);
    const npy_intp stride = panel.stride;
    float* to = panel.full ? gradient + at : space;
    for (npy_intp i = 0; i < inputs; ++i)
        std::fill(to + i * stride, to + i * stride + C * LANES, 0.0f);
    vector later[C] = {}, all[C] = {};
    for (npy_intp i = changes.rows() - 1; i >= 0; --i) {
        vector row[C];
        panel.get(r + i * columns + at, row);
        for (int c = 0; c < C; ++c) later[c] += weight[i] * row[c];
        const int32_t *unit = changes.on(i), *off = changes.off(i), *end = changes.end(i);
        for (; unit < off; ++unit) add_to_row<1, C>(to + *unit * stride, later);
        for (; unit < end; ++unit) add_to_row<-1, C>(to + *unit * stride, later);
        if (changes.begins(i))
            for (int c = 0; c < C; ++c) { all[c] += later[c]; later[c] = vector{}; }
    }
    panel.put(bias + at, all);
    if (!panel.full)
        for (npy_intp i = 0; i < inputs; ++i)
            copy_floats(gradient + i * columns + at, to + i * stride, width);
}

// The columns from `at` on, at most PANEL of them; `space` has room for `terms` times PANEL floats.
static void changes_product(const Changes& changes, const float* source, npy_intp terms,
                            npy_intp columns, npy_intp at, float* space, float* out) {
    const npy_intp width = std::min(PANEL, columns - at);
    BIHM_PANELS(changes_panel, changes, source, terms, columns, at, width, space, out)
}

static void changes_gradient(const Changes& changes, const float* r, const float* weight,
                             npy_intp inputs, npy_intp columns, npy_intp at, float* space,
                             float* gradient, float* bias) {
    const npy_intp width = std::min(PANEL, columns - at);
    BIHM_PANELS(changes_gradient_panel, changes, r, weight, inputs, columns, at, width, space,
                gradient, bias)
}

}  // namespace bihm
