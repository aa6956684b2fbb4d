#include <cmath>
extern "C" void solve(const float* x, float* out, int M, int N) {
  double* part = (double*)__builtin_alloca(8l * N);
  for (int i = 0; i < M; ++i) {
    const float* row = x + (long)i * N;
    float top = row[0];
    double sum = 0;
    for (int j = 1; j < N; ++j) top = row[j] > top ? row[j] : top;
    for (int j = 0; j < N; ++j) sum += part[j] = std::exp((double)row[j] - top);
    for (int j = 0; j < N; ++j) out[(long)i * N + j] = (float)(part[j] / sum);
  }
}
