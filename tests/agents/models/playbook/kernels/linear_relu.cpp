// takes: in:9x70 in:23x70 in:23 out:9x23 9 70 23
// recipes: simd_reduction parallel_outer
#include <algorithm>
extern "C" void solve(const float* x, const float* w, const float* b, float* y, int batch, int in_f, int out_f) {
  for (int n = 0; n < batch; ++n)
    for (int o = 0; o < out_f; ++o) {
      float acc = b[o];
      const float* wr = w + o * in_f;
      const float* xr = x + n * in_f;
      for (int i = 0; i < in_f; ++i) acc += wr[i] * xr[i];
      y[n * out_f + o] = std::max(acc, 0.0f);
    }
}
