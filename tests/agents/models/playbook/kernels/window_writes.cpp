// takes: in:20011 out:20011 20011 5
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  for (int i = 0; i < n; ++i)
    for (int j = std::max(0, i - h); j < std::min(i + h, n); ++j) y[j] = y[j] * 0.5f + x[i];
}
