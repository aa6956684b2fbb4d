// takes: in:40012 out:10003 40012
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  const float s = 0.25f;
  for (int i = 0; i < n; ++i) y[(int)(s * i)] = x[i];
}
