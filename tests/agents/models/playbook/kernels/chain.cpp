// takes: in:5000 in:5000 out:5000 out:5000 5000
// recipes: vector_exp simd_loop parallel_outer
#include <cmath>
#include <cstdint>
extern "C" void solve(const float* x, const float* bias, float* tmp, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) tmp[i] = x[i] * 1.5f + bias[i];
  for (int64_t i = 0; i < n; ++i) tmp[i] = fmaxf(tmp[i], 0.0f);
  for (int64_t k = 0; k < n; ++k) {
    y[k] = tmp[k] / (1.0f + expf(-tmp[k]));
  }
}
