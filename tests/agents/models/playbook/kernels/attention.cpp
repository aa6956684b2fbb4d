// takes: in:33x20 in:33x20 in:33x20 out:33x20 33 20
// recipes: vector_exp interchange simd_reduction parallel_outer
#include <cmath>
#include <vector>
extern "C" void solve(const float* Q, const float* K, const float* V, float* O, int T, int D) {
  const float scale = 1.0f / sqrtf((float)D);
  std::vector<float> p(T);
  for (int i = 0; i < T; ++i) {
    float mx = -INFINITY;
    for (int j = 0; j < T; ++j) {
      float s = 0.0f;
      for (int d = 0; d < D; ++d) s += Q[i * D + d] * K[j * D + d];
      p[j] = s * scale;
      if (p[j] > mx) mx = p[j];
    }
    float sum = 0.0f;
    for (int j = 0; j < T; ++j) { p[j] = expf(p[j] - mx); sum += p[j]; }
    for (int d = 0; d < D; ++d) {
      float o = 0.0f;
      for (int j = 0; j < T; ++j) o += p[j] * V[j * D + d];
      O[i * D + d] = o / sum;
    }
  }
}
