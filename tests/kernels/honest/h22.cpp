#include <cstdint>
#include <vector>
#include <immintrin.h>
#if defined(__SSE2__)
#endif
extern "C" void solve(const float* x, float* out, int N) {
  const int blocks = 16;
  std::vector<double> before(blocks + 1, 0.0);
#pragma omp parallel for
  for (int k = 0; k < blocks; ++k) {
    double sum = 0;
    for (long i = (long)N * k / blocks; i < (long)N * (k + 1) / blocks; ++i) sum += x[i];
    before[k + 1] = sum;
  }
  for (int k = 0; k < blocks; ++k) before[k + 1] += before[k];
#pragma omp parallel for
  for (int k = 0; k < blocks; ++k) {
    double sum = before[k];
    long i = (long)N * k / blocks;
    const long end = (long)N * (k + 1) / blocks;
    for (; i < end && ((uintptr_t)(out + i) & 15); ++i) out[i] = (float)(sum += x[i]);
#if defined(__SSE2__)
    for (; i + 4 <= end; i += 4) {
      float four[4];
      for (int q = 0; q < 4; ++q) four[q] = (float)(sum += x[i + q]);
      _mm_stream_ps(out + i, _mm_loadu_ps(four));
    }
#endif
    for (; i < end; ++i) out[i] = (float)(sum += x[i]);
  }
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
