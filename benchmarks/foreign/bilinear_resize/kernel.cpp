// Resizes C planes from H x W to OH x OW by bilinear interpolation, pixel centres at halves.
#include <algorithm>
#include <cmath>

static float pixel(const float* plane, int W, int y, int x) { return plane[y * W + x]; }

static float sample(const float* plane, int H, int W, double fy, double fx) {
  fy = std::max(fy, 0.0);
  fx = std::max(fx, 0.0);
  const int y0 = std::min(static_cast<int>(std::floor(fy)), H - 1);
  const int x0 = std::min(static_cast<int>(std::floor(fx)), W - 1);
  const int y1 = std::min(y0 + 1, H - 1);
  const int x1 = std::min(x0 + 1, W - 1);
  const float ty = static_cast<float>(fy - y0);
  const float tx = static_cast<float>(fx - x0);
  const float top = pixel(plane, W, y0, x0) * (1 - tx) + pixel(plane, W, y0, x1) * tx;
  const float bottom = pixel(plane, W, y1, x0) * (1 - tx) + pixel(plane, W, y1, x1) * tx;
  return top * (1 - ty) + bottom * ty;
}

extern "C" void solve(const float* src, float* dst, int C, int H, int W, int OH, int OW) {
  for (int c = 0; c < C; ++c) {
    for (int y = 0; y < OH; ++y) {
      for (int x = 0; x < OW; ++x) {
        const double fy = (y + 0.5) * H / OH - 0.5;
        const double fx = (x + 0.5) * W / OW - 0.5;
        dst[(c * OH + y) * OW + x] = sample(src + c * H * W, H, W, fy, fx);
      }
    }
  }
}
