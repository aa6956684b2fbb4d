// takes: in:20011 in:20011 out:20011 20011
// recipes: fuse_passes simd_loop parallel_outer
#include <vector>
extern "C" void solve(const float* x, const float* y, float* z, int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; i++) w[i] = 3 * x[i];
  for (int i = 0; i < n; i++) w[i] += y[i];
  for (int i = 0; i < n; i++) z[i] = w[i] * w[i];
}
