// takes: in:40011 out:40011 out:1 40011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, float* z, int n) {
  float t = 1.0f;
  for (int i = 0; i < n; ++i) { t = x[i] * 3.0f; y[i] = t + 1.0f; }
  if (n < 5) t = 0.0f;
  z[0] = t;
}
