#include <cmath>
extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) {
    const float v = x[i];
    out[i] = v < -2.8f ? 0.0f : v > 2.8f ? v : (float)(0.5 * v * (1.0 + std::erf(v * 0.70710678118654752)));
  }
}
