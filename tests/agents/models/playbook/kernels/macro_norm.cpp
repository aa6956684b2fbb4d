// takes: in:311x157 inout:311 311 157
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

#define NORM(p, v) (*(p) = *(p) * 0.5f + (v))
static float max(float a, float b) { return a * a > b * b ? a : b; }
static float fmaxf2(float a, float b) { return max(a, b); }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  for (int i = 0; i < rows; ++i) { float m = 0.0f, s = 0.0f; for (int j = 0; j < cols; ++j) {
   m = max(m, x[i * cols + j]); s = fmaxf2(s, x[i * cols + j]);
   NORM(&y[i], m + s); } y[i] = m + s; }
}
