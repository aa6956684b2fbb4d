// Causal attention of one head: out = softmax(mask(Q K^T / sqrt(D))) V.
#include <cmath>
#include <vector>

extern "C" void solve(const float* Q, const float* K, const float* V, float* out, int L, int D) {
  std::vector<float> scores(L);
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  for (int q = 0; q < L; ++q) {
    float highest = -INFINITY;
    for (int k = 0; k <= q; ++k) {
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += Q[q * D + d] * K[k * D + d];
      scores[k] = dot * scale;
      if (scores[k] > highest) highest = scores[k];
    }
    float total = 0.0f;
    for (int k = 0; k <= q; ++k) {
      scores[k] = std::exp(scores[k] - highest);
      total += scores[k];
    }
    for (int d = 0; d < D; ++d) {
      float sum = 0.0f;
      for (int k = 0; k <= q; ++k) sum += scores[k] / total * V[k * D + d];
      out[q * D + d] = sum;
    }
  }
}
