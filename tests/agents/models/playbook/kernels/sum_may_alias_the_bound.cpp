// takes: in:8x6 out:8 8 6
// recipes: parallel_outer
// The sum is also what is added.
extern "C" void solve(const float* x, float* y, int M, int N) {
  for (int i = 0; i < M; ++i) {
    y[i] = 1.0f;
    for (int j = 0; j < N; ++j) y[i] += x[i * N + j] * y[i];
  }
}
