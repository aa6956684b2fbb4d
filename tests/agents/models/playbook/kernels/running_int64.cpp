// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  std::vector<int64_t> z(n);
  z[0] = 2000000000;
  for (int i = 1; i < n; ++i) z[i] = z[i - 1] + 1000000000;
  for (int i = 0; i < n; ++i) y[i] = (float)(z[i] / 1000000000) + x[i];
}
