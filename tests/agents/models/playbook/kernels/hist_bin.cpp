// takes: index:40011 out:70 40011 70
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const int* q, float* hist, int n, int b) {
  const float width = 0.3f;
  for (int i = 0; i < b; ++i) hist[i] = 0.0f;
  for (int i = 0; i < n; ++i) { float v = q[i] * 0.3f; int c = (int)(v / width); hist[c] += 1.0f; }
}
