// Threads that share the rows or columns of a matrix, their memory, and wide vectors. Follows rows.h.

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

#ifdef __AVX512F__
typedef float vector __attribute__((vector_size(64)));
#else
typedef float vector __attribute__((vector_size(32)));
#endif
static const npy_intp LANES = sizeof(vector) / sizeof(float);
static const npy_intp PANEL = 64;                    // columns summed at a time, in registers

// Calls FUNCTION<C>, where C vectors hold `width` columns, of which there are at most PANEL.
#define BIHM_PANELS(FUNCTION, ...)                                                  \
    switch ((width + LANES - 1) / LANES) {                                          \
        case 1: return FUNCTION<1>(__VA_ARGS__); case 2: return FUNCTION<2>(__VA_ARGS__); \
        case 3: return FUNCTION<3>(__VA_ARGS__); case 4: return FUNCTION<4>(__VA_ARGS__); \
        case 5: return FUNCTION<5>(__VA_ARGS__); case 6: return FUNCTION<6>(__VA_ARGS__); \
        case 7: return FUNCTION<7>(__VA_ARGS__); case 8: return FUNCTION<8>(__VA_ARGS__); \
    }

static inline bool all_binary(const float* a, npy_intp n) {
    v8i others = {};
    int32_t other = 0;
    npy_intp i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8f v = load(a + i);
        others |= (v != 0.0f) & (v != 1.0f);
    }
    for (; i < n; ++i) other |= (a[i] != 0.0f) & (a[i] != 1.0f);
    for (int lane = 0; lane < 8; ++lane) other |= others[lane];
    return !other;
}

}  // namespace bihm
