// takes: in:1001 out:1001 1001
// recipes: simd_reduction parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  const int parts = n > 3 ? 0 : 7;
  for (int i = 0; i < n; ++i) {
    float s = x[i];
    if (parts > 0) for (int j = 0; j < n / parts; ++j) s += x[j];
    y[i] = s;
  }
}
