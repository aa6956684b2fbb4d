// takes: in:20011 out:20011 20011 7
// recipes: simd_reduction simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int t = 0; t < h; ++t) y[t] = x[t];
  for (int t = h; t < n; ++t) {
    float s = 0.0f;
    for (int k = t - h; k < t; ++k) s += y[k];
    y[t] = 0.1f * s + x[t];
  }
}
