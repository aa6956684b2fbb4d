// takes: in:1001 out:1001 1001
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static int mode;
static void put(float* y, int i, float v) { y[i] = v; if (v > 1.0f) mode = 1; }
extern "C" void solve(const float* x, float* y, int n) {
  mode = 0;
  for (int i = 0; i < n; ++i) {
    if (mode == 0) put(y, i, x[i]);
    else y[i] = -x[i];
  }
}
