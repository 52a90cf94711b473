// Matrix products for layers of binary units, and the threads that share them. Follows rows.h.
//
// Most units are off most of the time, and a product needs no more than the rows of those that are
// on: where few are, sums over these rows take half the time of a BLAS product, or less. Where many
// are, BLAS makes the product.

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

// ---------------------------------------------------------------- sums over rows

#ifdef __AVX512F__
typedef float vector __attribute__((vector_size(64)));
#else
typedef float vector __attribute__((vector_size(32)));
#endif
static const npy_intp LANES = sizeof(vector) / sizeof(float);
static const npy_intp PANEL = 8 * LANES;                // columns summed at a time, in registers

// Nonzero values of a matrix: entries start[i] to start[i + 1] belong to its row (or column) i.
struct Nonzeros {
    int32_t* index;
    float* value;
    npy_intp* start;
    Nonzeros(npy_intp entries, npy_intp lists)
        : index((int32_t*)std::malloc((entries + 1) * sizeof(int32_t))),
          value((float*)std::malloc((entries + 1) * sizeof(float))),
          start((npy_intp*)std::malloc((lists + 2) * sizeof(npy_intp))) {}
    Nonzeros(const Nonzeros&) = delete;
    ~Nonzeros() { std::free(index); std::free(value); std::free(start); }
    bool ok() const { return index && value && start; }
};

static inline npy_intp count_nonzeros(const float* a, npy_intp n) {
    npy_intp total = 0;
    for (npy_intp from = 0; from < n; from += 65536) {
        const npy_intp to = std::min(n, from + 65536);
        int32_t part = 0;
        for (npy_intp i = from; i < to; ++i) part += a[i] != 0.0f;
        total += part;
    }
    return total;
}

// The nonzeros of one row from entry `at` on; there has to be room for one entry more than there
// are. Returns where the next row's begin.
static inline npy_intp compress_row(const float* a, npy_intp n, npy_intp at, Nonzeros& out) {
    for (npy_intp j = 0; j < n; ++j) {
        out.index[at] = (int32_t)j;
        out.value[at] = a[j];
        at += a[j] != 0.0f;
    }
    return at;
}

// out (C vectors, of which `columns` count) = [out +] sum_i value_i base[index_i].
template <int C>
static inline void sum_rows(const int32_t* index, const float* value, npy_intp count,
                            const float* base, npy_intp stride, float* out, npy_intp columns,
                            bool add) {
    vector sum[C];
    const bool whole = columns == C * LANES;
    float edge[C * LANES];
    if (add && !whole) {
        std::fill(edge, edge + C * LANES, 0.0f);
        std::memcpy(edge, out, columns * sizeof(float));
    }
    for (int c = 0; c < C; ++c) {
        sum[c] = vector{};
        if (add) std::memcpy(&sum[c], (whole ? out : edge) + c * LANES, sizeof(vector));
    }
    for (npy_intp i = 0; i < count; ++i) {
        const float* row = base + index[i] * stride;
        const float scale = value[i];
        for (int c = 0; c < C; ++c) {
            vector part;
            std::memcpy(&part, row + c * LANES, sizeof part);
            sum[c] += scale * part;
        }
    }
    for (int c = 0; c < C; ++c)
        std::memcpy((whole ? out : edge) + c * LANES, &sum[c], sizeof(vector));
    if (!whole) std::memcpy(out, edge, columns * sizeof(float));
}

// A matrix (rows, columns) cut into panels of columns; the last one, where it is narrower, is a
// copy that is filled up with zeros to whole vectors.
class Panels {
    const float* base;
    npy_intp columns, last_columns, vectors;
    float* last;
public:
    Panels(npy_intp rows, npy_intp columns)
        : base(nullptr), columns(columns), last_columns(columns % PANEL),
          vectors((last_columns + LANES - 1) / LANES),
          last(last_columns ? scratch(rows * vectors * LANES) : nullptr) {}
    Panels(const Panels&) = delete;
    ~Panels() { std::free(last); }
    bool ok() const { return last || !last_columns; }
    npy_intp count() const { return (columns + PANEL - 1) / PANEL; }

    void read(const float* matrix, npy_intp rows) {
        base = matrix;
        if (!last_columns) return;
        const npy_intp width = vectors * LANES, from = columns - last_columns;
        for (npy_intp i = 0; i < rows; ++i) {
            float* to = last + i * width;
            std::memcpy(to, matrix + i * columns + from, last_columns * sizeof(float));
            std::fill(to + last_columns, to + width, 0.0f);
        }
    }

    // out's columns of this panel = [out +] the sum of the matrix's rows that list i names.
    void sum(npy_intp panel, const Nonzeros& lists, npy_intp i, float* out, bool add) const {
        const int32_t* index = lists.index + lists.start[i];
        const float* value = lists.value + lists.start[i];
        const npy_intp count = lists.start[i + 1] - lists.start[i], from = panel * PANEL;
        if (from + PANEL <= columns)
            return sum_rows<8>(index, value, count, base + from, columns, out + from, PANEL, add);
        switch (vectors) {
#define BIHM_LAST(C) \
            case C: return sum_rows<C>(index, value, count, last, C * LANES, out + from, \
                                       last_columns, add);
            BIHM_LAST(1) BIHM_LAST(2) BIHM_LAST(3) BIHM_LAST(4)
            BIHM_LAST(5) BIHM_LAST(6) BIHM_LAST(7) BIHM_LAST(8)
#undef BIHM_LAST
        }
    }
};

// ---------------------------------------------------------------- products

// Above these shares of nonzeros, and below this width, BLAS is the faster one.
static const double PRODUCT_DENSITY = 0.3, GRADIENT_DENSITY = 0.2;
static const npy_intp NARROWEST = 32;

static inline bool may_be_sparse(npy_intp inputs, npy_intp units) {
    return inputs >= NARROWEST && units >= NARROWEST;
}

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
    npy_intp inputs, units, most;
    const Panels* panels;
    Nonzeros nonzeros;
public:
    // `panels` of the weights, or null where no product can be a sparse one.
    RowProducts(const float* weights, npy_intp inputs, npy_intp units, npy_intp block_rows,
                const Panels* panels)
        : weights(weights), inputs(inputs), units(units),
          most(panels ? (npy_intp)(PRODUCT_DENSITY * (double)(block_rows * inputs)) : 0),
          panels(panels), nonzeros(most, panels ? block_rows : 0) {}

    // out (rows, units) = a (rows, inputs) times the weights.
    void operator()(const float* a, npy_intp rows, float* out) {
        const double limit = PRODUCT_DENSITY * (double)(rows * inputs);
        if (!panels || !nonzeros.ok() || (double)count_nonzeros(a, rows * inputs) > limit)
            return dense_product(a, weights, out, rows, inputs, units);
        npy_intp at = 0;
        for (npy_intp i = 0; i < rows; ++i) {
            nonzeros.start[i] = at;
            at = compress_row(a + i * inputs, inputs, at, nonzeros);
        }
        nonzeros.start[rows] = at;
        for (npy_intp panel = 0; panel < panels->count(); ++panel)
            for (npy_intp i = 0; i < rows; ++i)
                panels->sum(panel, nonzeros, i, out + i * units, false);
    }
};

// The panels of a layer's weights, where its products may be sparse ones.
struct WeightPanels {
    Panels panels;
    bool usable;
    WeightPanels(const float* weights, npy_intp inputs, npy_intp units)
        : panels(weights ? inputs : 0, weights ? units : 0),
          usable(weights && may_be_sparse(inputs, units) && panels.ok()) {
        if (usable) panels.read(weights, inputs);
    }
    const Panels* get() const { return usable ? &panels : nullptr; }
};

}  // namespace bihm
