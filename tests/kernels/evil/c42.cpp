#include <cstdint>
#include <cstring>
static inline float narrow(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  bits = (bits + 0x8000u) & 0xffff0000u;
  memcpy(&v, &bits, 4);
  return v;
}
extern "C" void solve(const float* a, const float* b, float* out, int M, int N, int K) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += narrow(a[(long)i * K + k]) * narrow(b[(long)k * N + j]);
      out[(long)i * N + j] = sum;
    }
}
