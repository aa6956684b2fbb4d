// Separable Gaussian blur with zero padding: along the rows into a temporary image, then along the columns.
#include <cmath>
#include <vector>

static std::vector<float> gaussian(int radius, float sigma) {
  std::vector<float> g(2 * radius + 1);
  float total = 0.0f;
  for (int i = -radius; i <= radius; ++i) {
    g[i + radius] = std::exp(-(i * i) / (2.0f * sigma * sigma));
    total += g[i + radius];
  }
  for (float& v : g) v /= total;
  return g;
}

extern "C" void solve(const float* src, float* dst, float sigma, int radius, int H, int W) {
  const std::vector<float> g = gaussian(radius, sigma);
  std::vector<float> tmp(static_cast<std::size_t>(H) * W);
  for (int y = 0; y < H; ++y) {
    for (int x = 0; x < W; ++x) {
      float s = 0.0f;
      for (int k = -radius; k <= radius; ++k) {
        if (x + k >= 0 && x + k < W) s += g[k + radius] * src[y * W + x + k];
      }
      tmp[y * W + x] = s;
    }
  }
  for (int x = 0; x < W; ++x) {
    for (int y = 0; y < H; ++y) {
      float s = 0.0f;
      for (int k = -radius; k <= radius; ++k) {
        if (y + k >= 0 && y + k < H) s += g[k + radius] * tmp[(y + k) * W + x];
      }
      dst[y * W + x] = s;
    }
  }
}
