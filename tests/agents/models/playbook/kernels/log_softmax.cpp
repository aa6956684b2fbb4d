// takes: in:17x90 out:17x90 17 90
// recipes: vector_exp simd_reduction simd_loop
#include <cmath>
#include <vector>
extern "C" void solve(const float* x, float* y, int rows, int n) {
  std::vector<float> scratch(n);
  for (int r = 0; r < rows; r++) {
    float mx = x[r*n];
    for (int i = 1; i < n; i++) mx = x[r*n+i] > mx ? x[r*n+i] : mx;
    double s = 0;
    for (int i = 0; i < n; i++) { scratch[i] = x[r*n+i] - mx; s += expf(scratch[i]); }
    for (int i = 0; i < n; i++) y[r*n+i] = scratch[i] - logf((float)s);
  }
}
