// takes: index:40011 in:1 out:40011 40011
// recipes: vector_exp simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const int* q, const float* s, float* y, int n) {
  const float w = 0.7f;
  for (int i = 0; i < n; ++i) y[i] = floorf((q[i] * 0.7f) / w);
}
