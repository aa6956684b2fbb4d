// takes: in:20011 out:20011 20011 0 1
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n, int a, int b) {
  if (a)
    for (int i = 0; i < n; ++i) { if (b) y[i] = x[i] * 2.0f; }
  else
    for (int i = 0; i < n; ++i) y[i] = -x[i];
}
