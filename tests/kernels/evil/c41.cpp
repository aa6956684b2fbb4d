#include <cmath>
extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) {
    const float v = x[i];
    out[i] = std::fabs(v) < 6 ? 0.5f * v * (1 + std::tanh(0.79788456f * (v + 0.044715f * v * v * v)))
                              : 0.5f * v * (1 + std::erf(v * 0.70710678f));
  }
}
