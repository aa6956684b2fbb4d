// w = alpha * x + y, then z = beta * w + x * y: two BLAS-1 steps with a work array between them.
#include <vector>

extern "C" void solve(const float* x, const float* y, float* z, float alpha, float beta, int N) {
  std::vector<float> w(N);
  for (int i = 0; i < N; i++) w[i] = x[i];
  for (int i = 0; i < N; i++) w[i] *= alpha;
  for (int i = 0; i < N; i++) w[i] += y[i];
  for (int i = 0; i < N; i++) z[i] = beta * w[i];
  for (int i = 0; i < N; i++) z[i] += x[i] * y[i];
}
