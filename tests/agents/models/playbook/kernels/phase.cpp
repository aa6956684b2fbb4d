// takes: in:1 out:20011 20011
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* f, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = std::sin(6.283185307179586 * f[0] * i);
}
