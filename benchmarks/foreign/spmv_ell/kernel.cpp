// Sparse matrix times vector, K entries stored for each row (ELLPACK).
#include <cstdint>

extern "C" void solve(const int64_t* column, const float* value, const float* x, float* y, int N, int K) {
  for (int row = 0; row < N; ++row) {
    y[row] = 0;
    for (int e = row * K; e < (row + 1) * K; ++e) {
      y[row] += value[e] * x[column[e]];
    }
  }
}
