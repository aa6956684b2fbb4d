// takes: in:1003 out:1003 1003
// recipes: simd_reduction simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static float folded(const float* x, int from, int to) {
  float s = 0.0f;
  for (int k = from; k < to; ++k) s += x[k];
  if (to - from > 1) s += folded(x, from, to - 1);
  return s;
}
static float counted(const float* x, int from, int& used, float* last) {
  float s = 0.0f;
  for (int k = from; k < from + 3; ++k) { s += x[k]; used += x[k] > 0.0f; *last = x[k]; }
  return s;
}
static float kept(const float* x, int from, float* last) {
  float s = last[0] * 0.5f;
  for (int k = from; k < from + 3; ++k) { s += x[k]; last[0] = s; }
  return s * 0.25f;
}
extern "C" void solve(const float* x, float* y, int n) {
  int used = 0;
  float last = 0.0f, chain[1] = {0.0f};
  for (int j = 0; j < n - 4; ++j) {
    y[j] = folded(x, j, j + 4);
    y[j] += counted(x, j, used, &last);
    const float chained = kept(x, j, chain);
    y[j] += chained + used % 7 + last;
  }
  for (int j = n - 4; j < n; ++j) y[j] = chain[0];
}
