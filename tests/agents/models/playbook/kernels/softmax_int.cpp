// takes: in:37x67 out:37x67 37 67
// recipes: vector_exp simd_reduction simd_loop parallel_outer
#include <cmath>
extern "C" void solve(const float* x, float* y, int M, int N) {
  for (int i = 0; i < M; i++) {
    float m = -INFINITY;
    for (int j = 0; j < N; j++) m = fmaxf(m, x[i * N + j]);
    float s = 0.0f;
    for (int j = 0; j < N; j++) s += expf(x[i * N + j] - m);
    for (int j = 0; j < N; j++) y[i * N + j] = expf(x[i * N + j] - m) / s;
  }
}
