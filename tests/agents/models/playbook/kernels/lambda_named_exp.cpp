// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  auto exp = [&](float v) { float s = v; s += 1.0f; return s * v; };
  for (int i = 0; i < n; ++i) y[i] = exp(x[i]);
}
