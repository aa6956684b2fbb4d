// takes: in:37x53 in:53x141 out:37x141 37 141 53
// recipes: interchange parallel_outer
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float acc = 0;
      for (int k = 0; k < K; k++) acc += A[i*K+k] * B[k*N+j];
      C[i*N+j] = acc;
    }
}
