#include <cmath>
extern "C" void solve(float* w, float* m, float* v, const float* g, float rate, int N) {
  for (int i = 0; i < N; ++i) {
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    w[i] -= rate * m[i] / (std::sqrt(double(v[i])) + 1e-8);
  }
}
