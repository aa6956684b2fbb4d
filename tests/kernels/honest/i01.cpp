#include <cmath>
extern "C" void solve(float* __restrict w, float* __restrict m, float* __restrict v, const float* __restrict g,
                      float rate, int N) {
  constexpr int B = 256;
  for (int at = 0; at < N; at += B) {
    float root[B];
    const int n = N - at < B ? N - at : B;
    for (int i = 0; i < n; ++i) {
      const float x = g[at + i];
      m[at + i] = 0.9f * m[at + i] + 0.1f * x;
      v[at + i] = 0.999f * v[at + i] + 0.001f * x * x;
      root[i] = v[at + i];
    }
    for (int i = 0; i < n; ++i) root[i] = std::sqrt(root[i]);
    for (int i = 0; i < n; ++i) w[at + i] -= rate * m[at + i] / (root[i] + 1e-8f);
  }
}
