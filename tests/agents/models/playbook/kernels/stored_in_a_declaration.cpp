#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; ++i) { y[i] = w[i]; float t = (w[i] = x[i]); y[i] += t; }
}
