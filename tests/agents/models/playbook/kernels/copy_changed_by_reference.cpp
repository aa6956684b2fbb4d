// takes: in:1001 out:1001 1001
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static void bump(float& k) { k += 3.0f; }
extern "C" void solve(const float* x, float* y, int n) {
  float k = 2.0f;
  auto f = [=](float v) { return k * v; };
  bump(k);
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + k;
}
