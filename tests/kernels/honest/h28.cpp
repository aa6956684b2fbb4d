#include <cmath>
static float tail(float v) { return (float)(0.5 * v * std::erfc(-(double)v * 0.70710678118654752)); }
static float body(float v) { return (float)(0.5 * v * (1.0 + std::erf((double)v * 0.70710678118654752))); }
using Function = float (*)(float);
static constexpr Function functions[2] = {tail, body};
extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) out[i] = functions[x[i] > -1](x[i]);
}
