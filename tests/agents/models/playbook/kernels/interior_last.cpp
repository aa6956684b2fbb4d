// takes: in:1 out:1 1
// recipes: simd_loop
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  int i;
  for (i = 0; i < n; ++i) { if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1]; else y[i] = x[i]; }
  y[0] = i;
}
