// takes: in:20011 out:20011 20011
// recipes: vector_exp simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { float z = x[i] > 0.0f ? x[i] : 0.0f; y[i] = std::log(z + 1e-60); }
}
