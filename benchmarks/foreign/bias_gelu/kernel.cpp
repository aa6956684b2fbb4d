// Adds a bias to each column, then GELU by the error function.
#include <cmath>

static inline float gelu(float v) { return 0.5f * v * (1.0f + std::erf(v / std::sqrt(2.0f))); }

extern "C" void solve(const float* x, const float* bias, float* y, int M, int N) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      y[i * N + j] = x[i * N + j] + bias[j];
  for (int n = 0; n < M * N; ++n) y[n] = gelu(y[n]);
}
