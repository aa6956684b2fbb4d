// takes: in:5000x64 out:5000x64 out:3 3 5000
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, float* z, int m, int n) {
  float last = 0.0f;
  for (int t = 0; t < m; ++t) {
    z[t] = last;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 64; ++j) { last = x[i * 64 + j] + t; y[i * 64 + j] = last * 2.0f; }
  }
}
