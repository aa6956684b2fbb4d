// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
  int k = 0;
  int& other = k;
  other = 1;
  for (int i = 0; i + 1 < n; ++i) y[i + k] = y[i] * 0.5f + x[i];
}
