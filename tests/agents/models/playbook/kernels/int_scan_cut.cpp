// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  int s = 0;
  for (int i = 0; i < n; ++i) { s += x[i] * 2.5f; y[i] = s; }
}
