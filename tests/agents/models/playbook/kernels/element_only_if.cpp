// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  for (int i = 0; i < 9; ++i) {
    const bool there = i > 3;
    const long at = there ? i : -100000000000L;
    for (int j = 0; j < n; ++j) if (there) y[at] += x[j] * 0.01f;
  }
}
