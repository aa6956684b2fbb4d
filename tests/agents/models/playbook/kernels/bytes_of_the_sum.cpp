// takes: in:1001 out:1001 1001
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> z(n);
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  auto bytes = (const unsigned char*)y;
  for (int j = 0; j < n; ++j) { y[0] += x[j]; z[j] = bytes[2]; }
  for (int j = 1; j < n; ++j) y[j] = z[j];
}
