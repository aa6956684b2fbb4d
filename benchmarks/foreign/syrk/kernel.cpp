// C = alpha * A A^T; the lower triangle is computed and mirrored.
#include <cstddef>

extern "C" void solve(const float* A, float* C, float alpha, int N, int K) {
  for (size_t i = 0; i < (size_t)N; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double dot = 0.0;
      for (size_t k = 0; k < (size_t)K; ++k) {
        dot += A[i * K + k] * A[j * K + k];
      }
      C[i * N + j] = alpha * (float)dot;
    }
  }
  for (size_t i = 0; i < (size_t)N; ++i)
    for (size_t j = i + 1; j < (size_t)N; ++j)
      C[i * N + j] = C[j * N + i];
}
