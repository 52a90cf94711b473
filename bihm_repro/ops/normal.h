// Standard normal numbers from the random numbers of rows.h. Follows layers.h.

namespace bihm {

static inline double unit_interval(uint32_t bits) { return ((bits >> 9) + 0.5) * 0x1p-23; }

static void standard_normal(npy_intp rows, npy_intp columns, Key key, float* out) {
#pragma omp parallel num_threads(team_size((double)rows * columns * 16))
    {
        const Range mine = share(rows, 1);
        for (npy_intp i = mine.begin; i < mine.end; ++i)
            for (npy_intp j = 0; j < columns; j += 16)
                for (npy_intp lane = 0; lane < 8 && j + lane < columns; ++lane) {
                    uint32_t first = (uint32_t)(j / 2 + lane), second = (uint32_t)i;
                    threefry(first, second, key);
                    const double radius = std::sqrt(-2.0 * std::log(unit_interval(first)));
                    const double angle = 6.283185307179586 * unit_interval(second);
                    float* at = out + i * columns + j + lane;
                    at[0] = (float)(radius * std::cos(angle));
                    if (j + lane + 8 < columns) at[8] = (float)(radius * std::sin(angle));
                }
    }
}

}  // namespace bihm
