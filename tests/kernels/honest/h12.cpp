#include <cstdint>
#include <cstdlib>
#include <cstring>
extern "C" void solve(const float* x, float* out, int M, int N) {
  uint32_t* a = (uint32_t*)malloc(4l * N);
  uint32_t* b = (uint32_t*)malloc(4l * N);
  for (int i = 0; i < M; ++i) {
    memcpy(a, x + (long)i * N, 4l * N);
    for (int j = 0; j < N; ++j) a[j] ^= a[j] >> 31 ? 0xffffffffu : 0x80000000u;
    for (int shift = 0; shift < 32; shift += 8) {
      int at[257] = {0};
      for (int j = 0; j < N; ++j) ++at[(a[j] >> shift & 255) + 1];
      for (int k = 0; k < 256; ++k) at[k + 1] += at[k];
      for (int j = 0; j < N; ++j) b[at[a[j] >> shift & 255]++] = a[j];
      uint32_t* other = a;
      a = b;
      b = other;
    }
    for (int j = 0; j < N; ++j) a[j] ^= a[j] >> 31 ? 0x80000000u : 0xffffffffu;
    memcpy(out + (long)i * N, a, 4l * N);
  }
  free(a);
  free(b);
}
