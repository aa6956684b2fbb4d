// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; ++i) { y[i] = w[i]; float t = (w[i] = x[i]); y[i] += t; }
}
