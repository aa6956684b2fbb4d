// takes: in:20011 inout:20011 20011 2000000000
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n, int far) {
  for (int i = 0; i < n; ++i) { if (far < n) y[far] += x[i]; }
}
