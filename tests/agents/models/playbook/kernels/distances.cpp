// takes: in:22x35 in:29x35 out:22x29 22 29 35
// recipes: simd_reduction parallel_outer
#include <cmath>
extern "C" void solve(const float* a, const float* b, float* d, int n, int m, int dim) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      float acc = 0.0f;
      for (int k = 0; k < dim; k++) {
        float t = a[i * dim + k] - b[j * dim + k];
        acc += t * t;
      }
      d[i * m + j] = sqrtf(acc);
    }
}
