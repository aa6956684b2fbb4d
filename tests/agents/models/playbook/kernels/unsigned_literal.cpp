// takes: in:20011 out:20011 20011
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int W) {
  for (int j = 0; j < W; ++j) {
    if (j - 1u < W - 2u) y[j] = x[j - 1] + x[j + 1];
    else y[j] = x[j];
  }
}
