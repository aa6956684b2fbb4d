// takes: in:24x24 out:24x24 24
// recipes: simd_loop parallel_outer
// Each element needs its upper right neighbour: neither order of the loops but this one is right.
extern "C" void solve(const float* x, float* y, int N) {
  for (int i = 0; i < N * N; ++i) y[i] = x[i];
  for (int j = 1; j < N; ++j)
    for (int i = 0; i < N - 1; ++i)
      y[i * N + j] = 0.5f * y[(i + 1) * N + j - 1] + x[i * N + j];
}
