// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  y[0] = (float)n;
  for (int i = 1; i < n; ++i) y[i] = x[i];
  for (int j = 0; j < y[0]; ++j) { if (x[j] < 0.0f) y[0] -= 1.0f; }
}
