// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
  int lag = 1, ahead = 0;
  if (n > 2) std::swap(lag, ahead);
  for (int i = 0; i + 1 < n; ++i) y[i + ahead] = y[i + lag] * 0.5f + x[i];
}
