// takes: in:24x40 out:24x40 24 40
// recipes: interchange simd_loop parallel_outer
// Each row is made of the row above; along a row the elements are independent.
extern "C" void solve(const float* x, float* y, int M, int N) {
  for (int j = 0; j < N; ++j) y[j] = x[j];
  for (int j = 0; j < N; ++j)
    for (int i = 1; i < M; ++i)
      y[i * N + j] = 0.5f * y[(i - 1) * N + j] + x[i * N + j];
}
