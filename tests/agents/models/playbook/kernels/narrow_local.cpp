// takes: in:40011 out:256 40011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { const uint8_t p = i; y[p] = x[i] * 2.0f; }
}
