#include <cmath>
extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) out[i] = (float)(0.5 * x[i] * (1.0 + std::erf(x[i] * 0.70710678118654752)));
}
