// takes: index:400110 out:64 400110 64
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const int* idx, float* hist, int n, int b) {
  float* h = hist;
  for (int i = 0; i < b; ++i) hist[i] = 0.0f;
  for (int i = 0; i < n; ++i) h[idx[i]] += 1.0f;
}
