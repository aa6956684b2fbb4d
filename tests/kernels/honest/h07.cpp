extern "C" void solve(const float* x, const int* ids, float* out, int N, int S, int D) {
#pragma omp parallel for schedule(static, 16)
  for (int d = 0; d < D; ++d)
    for (int s = 0; s < S; ++s) out[s * D + d] = 0;
#pragma omp parallel
  {
    float own[64 * 128] = {};
    const bool fits = S * D <= 64 * 128;
#pragma omp for schedule(static)
    for (int n = 0; n < N; ++n)
      if (ids[n] >= 0 && fits) {
#pragma omp simd
        for (int d = 0; d < D; ++d) own[ids[n] * D + d] += x[(long)n * D + d];
      } else if (ids[n] >= 0) {
#pragma omp critical
        for (int d = 0; d < D; ++d) out[ids[n] * D + d] += x[(long)n * D + d];
      }
#pragma omp critical
    for (int i = 0; fits && i < S * D; ++i) out[i] += own[i];
  }
}
