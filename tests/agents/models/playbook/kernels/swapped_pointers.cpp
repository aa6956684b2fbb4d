// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> t(n, 1.0f);
  for (int i = 0; i < n; ++i) y[i] = x[i];
  float *p = y, *q = t.data();
  std::swap(p, q);
  for (int i = 1; i < n; ++i) y[i] = q[i - 1] * 0.5f + x[i];
  y[0] += p[0];
}
