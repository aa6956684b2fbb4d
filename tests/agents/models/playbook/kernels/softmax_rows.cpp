// takes: in:33x130 out:33x130 33 130
// recipes: vector_exp simd_reduction simd_loop parallel_outer
#include <algorithm>
#include <cmath>
#include <cstddef>
static inline float peak(const float *v, size_t n) {
    float best = v[0];
    for (size_t k = 1; k != n; k += 1) { if (v[k] > best) best = v[k]; }
    return best;
}
extern "C" void solve(const float *input, float *output, size_t rows, size_t cols)
{
    for (size_t r = 0; r != rows; ++r) {
        const float *src = input + r * cols;
        float *dst = output + r * cols;
        const float top = peak(src, cols);
        float total = 0;
        for (size_t c = 0; c < cols; c++)
        {
            dst[c] = std::exp(src[c] - top);
        }
        for (size_t c = 0; c < cols; c++) {
            total += dst[c];
        }
        for (size_t c = 0; c < cols; c++) dst[c] /= total;
    }
}
