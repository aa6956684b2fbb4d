// Softmax along each row over the first `lengths[row]` entries; the rest gets probability zero.
#include <cfloat>
#include <cmath>
#include <cstdint>

extern "C" void solve(const float* scores, const int64_t* lengths, float* probabilities, int B, int N) {
  for (int b = 0; b < B; ++b) {
    const float* s = scores + (long)b * N;
    float* p = probabilities + (long)b * N;
    float max = -FLT_MAX;
    for (int i = 0; i < lengths[b]; ++i) {
      if (s[i] > max) max = s[i];
    }
    float denominator = 0.0f;
    for (int i = 0; i < N; ++i) {
      if (i < lengths[b]) {
        p[i] = expf(s[i] - max);
        denominator += p[i];
      } else {
        p[i] = 0.0f;
      }
    }
    for (int i = 0; i < N; ++i) p[i] /= denominator;
  }
}
