// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  float acc = 0.0f;
  auto norm = [&](float v) { acc = acc * 0.5f + v; return acc; };
  for (int i = 0; i < n; ++i) y[i] = norm(x[i]);
}
