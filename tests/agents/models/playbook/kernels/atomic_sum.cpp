// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  y[0] = 0.0f;
  #pragma omp parallel for
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < n; ++j) {
      #pragma omp atomic
      y[0] += x[j] > 0.0f ? 1.0f : 0.0f;
    }
  for (int i = 1; i < n; ++i) y[i] = x[i];
}
