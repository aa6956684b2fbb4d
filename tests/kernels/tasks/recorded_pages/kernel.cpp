#include <cmath>
extern "C" void solve(const float* q, const float* keys, const float* values, const int* table, const bool* mask,
                      float* out, int batch, int width, int pages, int columns, int tokens) {
  int size = tokens / columns;
  for (long b = 0; b < batch; ++b) {
    double top = -INFINITY, sum = 0;
    float sums[256] = {};
    for (int turn = 0; turn < 2; ++turn)
      for (long t = 0; t < tokens; ++t) {
        long page = table[b * columns + t / size], at = ((page < 0 ? 0 : page) * size + t % size) * width;
        double score = 0;
        for (int d = 0; d < width; ++d) score += q[b * width + d] * keys[at + d];
        score = mask[b * tokens + t] ? score * 0.125 : -INFINITY;
        if (!turn) {
          top = score > top ? score : top;
          continue;
        }
        double weight = std::exp(score - top);
        sum += weight;
        for (int d = 0; d < width; ++d) sums[d] += weight * values[at + d];
      }
    for (int d = 0; d < width; ++d) out[b * width + d] = sums[d] / sum;
  }
}
