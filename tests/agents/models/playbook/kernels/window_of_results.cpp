// takes: in:20011 out:20011 20011 7
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int i = 0; i < n; ++i) {
    float s = x[i];
    for (int j = std::max(0, i - h); j < std::min(i, n); ++j) s += 0.05f * y[j];
    y[i] = s;
  }
}
