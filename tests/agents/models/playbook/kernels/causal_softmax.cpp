// takes: in:301x301 out:301x301 301
// recipes: vector_exp simd_reduction simd_loop parallel_outer
#include <cmath>
extern "C" void solve(const float* s, float* p, int n) {
  for (int i = 0; i < n; i++) {
    float m = -1e30f;
    for (int j = 0; j <= i; j++) m = std::fmax(m, s[i*n+j]);
    float z = 0;
    for (int j = 0; j <= i; j++) { p[i*n+j] = std::exp(s[i*n+j] - m); z += p[i*n+j]; }
    for (int j = 0; j <= i; j++) p[i*n+j] /= z;
    for (int j = i + 1; j < n; j++) p[i*n+j] = 0;
  }
}
