// SwiGLU gate: silu(gate) * up, where each row of x holds the gate first and then the value.
#include <cmath>

extern "C" void solve(const float* x, float* out, int M, int N) {
  auto sigmoid = [](float v) { return 1.0 / (1.0 + exp(-v)); };
  for (int m = 0; m < M; m++) {
    const float* gate = &x[m * 2 * N];
    const float* up = &x[m * 2 * N + N];
    for (int n = 0; n < N; n++) {
      out[m * N + n] = gate[n] * sigmoid(gate[n]) * up[n];
    }
  }
}
