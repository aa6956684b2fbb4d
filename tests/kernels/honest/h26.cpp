#include <cstdlib>
extern "C" void solve(const float* a, const float* b, float* out, int M, int N, int K) {
  double* packed = (double*)aligned_alloc(64, ((8l * N * K + 63) / 64 + 1) * 64);
  for (long i = 0; i < (long)K * N; ++i) packed[i] = b[i];
  for (int i = 0; i < M; ++i)
    for (int from = 0; from < N; from += 32) {
      double sums[32] = {0};
      const int width = N - from < 32 ? N - from : 32;
      for (int k = 0; k < K; ++k) {
        const double factor = a[(long)i * K + k];
        const double* row = packed + (long)k * N + from;
        if (width == 32)
          for (int j = 0; j < 32; ++j) sums[j] += factor * row[j];
        else
          for (int j = 0; j < width; ++j) sums[j] += factor * row[j];
      }
      for (int j = 0; j < width; ++j) out[(long)i * N + from + j] = (float)sums[j];
    }
  free(packed);
}
