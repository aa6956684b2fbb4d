// takes: in:301x99 out:301x99 301 99
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static void rows(float* a, const float* b, int m, int n) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) a[i * n + j] = 0.5f * b[i * n + j] + 1.0f;
}
extern "C" void solve(const float* x, float* y, int m, int n) {
  for (int j = 0; j < n; ++j) y[j] = x[j];
  rows(y + n, y, m - 1, n);
}
