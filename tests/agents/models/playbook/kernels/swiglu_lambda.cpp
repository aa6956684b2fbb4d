// takes: in:31x154 out:31x77 31 77
// recipes:
#include <cmath>
extern "C" void solve(const float* x, float* out, int M, int N) {
  const float shift = 0.25f;
  auto gate_of = [&](float v) { return 1.0 / (1.0 + exp(-(v + shift))); };
  for (int m = 0; m < M; m++) {
    const float* gate = &x[m * 2 * N];
    const float* up = &x[m * 2 * N + N];
    for (int n = 0; n < N; n++) out[m * N + n] = gate[n] * gate_of(gate[n]) * up[n];
  }
}
