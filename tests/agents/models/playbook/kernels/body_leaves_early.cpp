// takes: in:1003 out:1003 1003
// recipes: simd_reduction simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static float first_above(const float* x, int from, int to) {
  for (int k = from; k < to; ++k) if (x[k] > 0.5f) return x[k];
  return -1.0f;
}
static float every_third(const float* x, int from, int to) {
  static int calls = 0;
  calls = (calls + 1) % 3;
  float s = 0.0f;
  for (int k = from; k < to; ++k) s += x[k] * (calls == 0);
  return s;
}
static float wide(const float* x, int from, int width = 5) {
  float s = 0.0f;
  for (int k = from; k < from + width; ++k) s += x[k];
  return s;
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int j = 0; j < n - 9; ++j) {
    y[j] = first_above(x, j, j + 6);
    const float again = wide(x, j);
    y[j] += again;
  }
  float s = 0.0f;
  for (int j = 0; j < (n - 9) / 3 * 3; ++j) s = every_third(x, j, j + 2) + s;
  for (int j = n - 9; j < n; ++j) y[j] = s;
}
