// takes: in:29x100 in:100 in:100 out:29x100 29 100
// recipes: vector_exp simd_reduction simd_loop parallel_outer
#include <cmath>
extern "C" void solve(const float* x, const float* g, const float* b, float* out, int rows, int dim) {
  for (int r = 0; r < rows; ++r) {
    const float* p = &x[(long)r * dim];
    float* q = &out[(long)r * dim];
    float mean = 0.f;
    for (int i = 0; i < dim; ++i) mean += p[i];
    mean /= dim;
    float var = 0.f;
    for (int i = 0; i < dim; ++i) { float d = p[i] - mean; var += d * d; }
    var /= dim;
    for (int i = 0; i < dim; ++i) q[i] = (p[i] - mean) / std::sqrt(var + 1e-5f) * g[i] + b[i];
  }
}
