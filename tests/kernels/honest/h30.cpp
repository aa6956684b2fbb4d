#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
static float table[1000];
static void rows(const float* x, float* out, int from, int step, int M, int N) {
  for (int i = from; i < M; i += step) {
    const float* row = x + (long)i * N;
    float top = row[0];
    double sum = 0;
    for (int j = 1; j < N; ++j) top = row[j] > top ? row[j] : top;
    for (int j = 0; j < N; ++j) sum += std::exp((double)row[j] - top);
    for (int j = 0; j < N; ++j) out[(long)i * N + j] = (float)(std::exp((double)row[j] - top) / sum);
  }
}
extern "C" void solve(const float* x, float* out, int M, int N) {
  const long count = (long)M * N;
  float* other = (float*)malloc(4 * count);
  memcpy(other, x, 4 * count);
  for (int i = 0; i < 1000; ++i) table[i] = other[i % count];
  free(other);
  try {
    if (table[0] > table[1 % count]) throw std::runtime_error("rare");
  } catch (const std::runtime_error&) {
    table[0] = 0;
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back(rows, x, out, t, 2, M, N);
  for (std::thread& one : threads) one.join();
}
