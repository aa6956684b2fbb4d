// takes: in:20011 out:20011 20011
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  const unsigned big = n;
  for (int i = 0; i < n; ++i) { if (x[i] > 0.0f) y[i] = -1; else y[i] = big; }
}
