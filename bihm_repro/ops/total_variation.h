// The gradient of the total variation of images. Follows layers.h.

namespace bihm {

// slope (n) = d / sqrt(d^2 + smoothing^2) of the differences d = later - earlier.
static inline void slopes(const float* later, const float* earlier, npy_intp n, float smoothing,
                          float* slope) {
    for (npy_intp j = 0; j < n; ++j) {
        const float d = later[j] - earlier[j];
        slope[j] = d / std::sqrt(d * d + smoothing * smoothing);
    }
}

// later += slope, earlier -= slope, one after the other: neighbours in a row overlap.
static inline void spread(const float* slope, npy_intp n, float* later, float* earlier) {
    for (npy_intp j = 0; j < n; ++j) later[j] += slope[j];
    for (npy_intp j = 0; j < n; ++j) earlier[j] -= slope[j];
}

// Each row of `images` has height x width pixels. Returns false where memory ran out.
static bool total_variation_gradient(const float* images, npy_intp rows, npy_intp height,
                                     npy_intp width, float smoothing, float* gradient) {
    bool ok = true;
#pragma omp parallel num_threads(team_size((double)rows * height * width * 8)) reduction(&& : ok)
    {
        float* slope = scratch(width);
        ok = slope;
        const Range mine = share(rows, 1);
        for (npy_intp row = mine.begin; ok && row < mine.end; ++row) {
            const float* image = images + row * height * width;
            float* g = gradient + row * height * width;
            std::fill(g, g + height * width, 0.0f);
            for (npy_intp i = 0; i < height; ++i, image += width, g += width) {
                slopes(image + 1, image, width - 1, smoothing, slope);
                spread(slope, width - 1, g + 1, g);
                if (i == 0) continue;
                slopes(image, image - width, width, smoothing, slope);
                spread(slope, width, g, g - width);
            }
        }
        std::free(slope);
    }
    return ok;
}

}  // namespace bihm
