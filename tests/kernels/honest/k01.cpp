#include <cmath>
extern "C" void solve(const float* q, const float* keys, const float* values, const int* table, const bool* mask,
                      float* out, int batch, int width, int pages, int columns, int tokens) {
  int size = tokens / columns;
  for (long b = 0; b < batch; ++b) {
    double top = -INFINITY, sum = 0;
    double sums[256] = {};
    for (long c = 0; c < columns; ++c) {
      long page = table[b * columns + c];
      for (long t = 0; t < size && page >= 0; ++t) {
        if (!mask[b * tokens + c * size + t]) continue;
        const float *key = keys + (page * size + t) * width, *value = values + (page * size + t) * width;
        double score = 0;
        for (int d = 0; d < width; ++d) score += q[b * width + d] * key[d];
        score *= 0.125;
        double higher = score > top ? score : top, shrink = std::exp(top - higher), weight = std::exp(score - higher);
        sum = sum * shrink + weight;
        for (int d = 0; d < width; ++d) sums[d] = sums[d] * shrink + weight * value[d];
        top = higher;
      }
    }
    for (int d = 0; d < width; ++d) out[b * width + d] = sums[d] / sum;
  }
}
