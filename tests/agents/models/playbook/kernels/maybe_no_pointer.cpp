// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static void add(const float* x, float* out, float* count, int n) {
  for (int j = 0; j < n; ++j) { out[0] += x[j]; if (count) count[0] += 1.0f; }
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  add(x, y, nullptr, 5);
  add(x, y + 1, y + 2, 7);
}
