#include <xmmintrin.h>
extern "C" void solve(const float* x, float* out, int N) {
  _mm_setcsr(_mm_getcsr() | 0x8040);
  double sum = 0;
  for (int i = 0; i < N; ++i) out[i] = (float)(sum += x[i]);
}
