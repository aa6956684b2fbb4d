// Forward substitution with R right-hand sides: L X = B for a lower triangular L with ones on its diagonal.
extern "C" void solve(const float* L, const float* B, float* X, int N, int R) {
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < N; ++i) {
      float s = B[i * R + r];
      for (int j = 0; j < i; ++j) {
        s -= L[i * N + j] * X[j * R + r];
      }
      X[i * R + r] = s;
    }
  }
}
