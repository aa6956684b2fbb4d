// takes: in:37x70 in:70 out:37 37 70
// recipes: interchange simd_loop parallel_outer
// y = A x with its loops in the wrong order: the inner one strides over a row of A.
extern "C" void solve(const float* A, const float* x, float* y, int M, int N) {
  for (int i = 0; i < M; ++i) y[i] = 0.0f;
  for (int j = 0; j < N; ++j)
    for (int i = 0; i < M; ++i)
      y[i] += A[i * N + j] * x[j];
}
