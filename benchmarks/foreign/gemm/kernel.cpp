// C = A B, the three loops of the definition.
#define A(i, k) a[(i) * K + (k)]
#define B(k, j) b[(k) * N + (j)]
#define C(i, j) c[(i) * N + (j)]

extern "C" void solve(const float* a, const float* b, float* c, int M, int N, int K) {
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      C(i, j) = 0.0f;
      for (int k = 0; k < K; k++) {
        C(i, j) += A(i, k) * B(k, j);
      }
    }
  }
}
