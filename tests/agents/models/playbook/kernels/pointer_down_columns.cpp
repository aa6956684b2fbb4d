// takes: in:37x70 in:37 out:70 37 70
// recipes: parallel_outer
// y = A^T x for a row-major M x N matrix: one column after another.
#include <cstddef>

extern "C" void solve(const float* A, const float* x, float* y, int M, int N) {
  for (int j = 0; j < N; ++j) {
    float acc = 0;
    const float* column = A + j;
    for (int i = 0; i < M; ++i) {
      acc += *column * x[i];
      column += N;
    }
    y[j] = acc;
  }
}
