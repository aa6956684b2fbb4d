// takes: in:131x157 in:9 out:131x157 131 157
// recipes: interchange parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

extern "C" void solve(const float* x, const float* w, float* y, int H, int W) {
  for (int i = 0; i < H; ++i)
    for (int j = 0; j < W; ++j) {
      float s = 0.0f;
      for (int u = 0; u < 3; ++u)
        for (int v = 0; v < 3; ++v) {
          int yy = i + u - 1, xx = j + v - 1;
          if ((unsigned)yy < (unsigned)H && (unsigned)xx < (unsigned)W) s += x[yy * W + xx] * w[u * 3 + v];
        }
      y[i * W + j] = s;
    }
}
