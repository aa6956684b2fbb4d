// takes: in:40011 out:40011 40011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static void blend(float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) a[i] = 0.5f * b[i] + 1.0f;
}
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = x[0];
  blend(y + 1, y, n - 1);
}
