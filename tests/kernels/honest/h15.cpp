#include <cmath>
#include <stdexcept>
#include <vector>
static void row_of(const float* row, float* to, int N, std::vector<double>& part) {
  float top = row[0], least = row[0];
  for (int j = 1; j < N; ++j) top = row[j] > top ? row[j] : top, least = row[j] < least ? row[j] : least;
  if (top == least) throw std::runtime_error("constant");
  double sum = 0;
  for (int j = 0; j < N; ++j) sum += part[j] = std::exp((double)row[j] - top);
  for (int j = 0; j < N; ++j) to[j] = (float)(part[j] / sum);
}
extern "C" void solve(const float* x, float* out, int M, int N) {
  std::vector<double> part(N);
  for (int i = 0; i < M; ++i) {
    try {
      row_of(x + (long)i * N, out + (long)i * N, N, part);
    } catch (const std::runtime_error&) {
      for (int j = 0; j < N; ++j) out[(long)i * N + j] = 1.0f / N;
    }
  }
}
