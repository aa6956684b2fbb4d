extern "C" void solve(const float* a, const int* blocks, const float* v, float* out, int M, int K) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int m = 0; m < M; ++m) {
    double sum[32] = {};
    for (int k = 0; k < K; ++k)
      if (blocks[m * K + k])
        for (int i = 0; i < 32; ++i) {
          const float* row = a + (long)(32 * m + i) * 32 * K + 32 * k;
          double part = 0;
#pragma omp simd reduction(+ : part)
          for (int j = 0; j < 32; ++j) part += row[j] * (double)v[32 * k + j];
          sum[i] += part;
        }
    for (int i = 0; i < 32; ++i) out[32 * m + i] = sum[i];
  }
}
