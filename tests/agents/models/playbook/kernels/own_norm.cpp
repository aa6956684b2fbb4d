// takes: in:20011 out:20011 out:1 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static float norm(float* p, float x) { p[0] += x; return p[0]; }
extern "C" void solve(const float* x, float* y, float* last, int n) {
  last[0] = 0.0f;
  for (int i = 0; i < n; ++i) y[i] = norm(last, x[i]);
}
