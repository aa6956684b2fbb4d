// takes: in:1001 out:1001 1001
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  float w[2] = {1.0f, 2.0f};
  auto f = [=](float v) { return w[0] * v + w[1]; };
  w[0] = 7.0f;
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + w[0];
}
