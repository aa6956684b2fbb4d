#include <cmath>
extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) {
    float total = 0;
    for (int j = 0; j < N; ++j) {
      float a = x[3 * i] - x[3 * j], b = x[3 * i + 1] - x[3 * j + 1], c = x[3 * i + 2] - x[3 * j + 2];
      total += 1.0f / sqrtf(a * a + b * b + c * c + 1.0f);
    }
    out[i] = total;
  }
}
