// takes: in:1001 out:1001 1001
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static int calls;
static float next() { return (float)(++calls % 7); }
extern "C" void solve(const float* x, float* y, int n) {
  calls = 0;
  auto square = [](float v) { return v * v + v; };
  for (int i = 0; i < n; ++i) y[i] = x[i] + square(next());
}
