extern "C" void solve(const float* a, const float* b, float* out, int M, int N, int K) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += a[(long)i * K + k] * (double)b[(long)k * N + j];
      out[(long)i * N + j] = (float)sum;
    }
}
