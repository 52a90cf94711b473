// Matrix products for layers of binary units. Follows tables.h and changes.h.

namespace bihm {

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
    Changes changes;
    float* panel;
public:
    RowProducts(const float* weights, npy_intp inputs, npy_intp units, npy_intp block_rows)
        : weights(weights), inputs(inputs), units(units),
          tabulate(weights && worth_tables(inputs, units)), space(tabulate ? block_rows : 0),
          codes(tabulate ? (uint32_t*)std::malloc((passes_over(inputs) * block_rows + 1) *
                                                  sizeof(uint32_t)) : nullptr),
          changes(tabulate ? block_rows : 0, inputs, tabulate ? changes_worth(block_rows, inputs) : 0),
          panel(tabulate ? scratch(inputs * PANEL) : nullptr) {}
    RowProducts(const RowProducts&) = delete;
    ~RowProducts() { std::free(codes); std::free(panel); }

    // out (rows, units) = a (rows, inputs) times the weights.
    void operator()(const float* a, npy_intp rows, float* out) {
        if (!tabulate || rows < ENTRIES || !space.ok() || !codes || !all_binary(a, rows * inputs))
            return dense_product(a, weights, out, rows, inputs, units);
        if (panel && changes.read(a, rows, inputs)) {
            for (npy_intp at = 0; at < units; at += PANEL)
                changes_product(changes, weights, inputs, units, at, panel, out);
            return;
        }
        for (npy_intp i = 0; i < rows; ++i)
            for (npy_intp pass = 0, from = 0; from < inputs; ++pass, from += TERMS)
                codes[pass * rows + i] = code_of_row(a + i * inputs + from,
                                                     std::min<npy_intp>(TERMS, inputs - from));
        for (npy_intp at = 0; at < units; at += PANEL)
            table_product(codes, rows, weights, nullptr, inputs, units, at, space, out);
    }
};

}  // namespace bihm
