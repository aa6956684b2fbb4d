// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static void scaled(const float* x, const float* s, float* out, int n) {
  for (int j = 0; j < n; ++j) out[j] = s ? x[j] / s[0] : x[j];
}
extern "C" void solve(const float* x, float* y, int n) { scaled(x, n > 3 ? nullptr : x, y, n); }
