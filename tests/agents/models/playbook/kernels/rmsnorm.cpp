// takes: in:31x96 in:96 out:31x96 31 96
// recipes: simd_reduction simd_loop parallel_outer
#include <cmath>
static void one_row(const float* row, const float* weight, float* dst, int n) {
  float ss = 0.0f;
  for (int k = 0; k < n; ++k) ss = ss + row[k] * row[k];
  const float norm = sqrtf(ss / n + 1e-6f);
  for (int k = 0; k < n; ++k) dst[k] = row[k] / norm * weight[k];
}
extern "C" void solve(const float* X, const float* W, float* Y, int B, int H) {
  for (int b = 0; b < B; b += 1) one_row(X + b * H, W, Y + b * H, H);
}
