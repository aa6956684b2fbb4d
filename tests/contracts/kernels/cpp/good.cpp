#include <cmath>

extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; i++) y[i] = 2.0f * x[i] + expf(x[i]);
}
