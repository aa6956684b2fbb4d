// takes: in:311x157 out:311 311 157
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

template <class T> static T max(T a, T b) { return a * a > b * b ? a : b; }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  double d = 0.0;
  for (int i = 0; i < rows; ++i) { float m = 0.0f; for (int j = 0; j < cols; ++j) {
   m = max(m, x[i * cols + j]); d = max(d, (double)m); } y[i] = m + (float)d;
   }
}
