// takes: in:21x37 in:30x37 out:21x30 21 30 37
// recipes: simd_reduction parallel_outer
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float sum = 0.f;
      for (int k = 0; k < K; ++k) {
        sum += A[i * K + k] * B[j * K + k];
      }
      C[i * N + j] = sum;
    }
  }
}
