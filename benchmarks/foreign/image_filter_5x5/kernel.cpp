// 5x5 filter of a grey image; pixels outside are taken from the nearest edge.
#include <algorithm>

extern "C" void solve(const float* image, const float* mask, float* result, int height, int width) {
  const int radius = 2;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      float value = 0.0f;
      for (int dy = -radius; dy <= radius; ++dy) {
        for (int dx = -radius; dx <= radius; ++dx) {
          int yy = std::clamp(y + dy, 0, height - 1);
          int xx = std::clamp(x + dx, 0, width - 1);
          value += image[yy * width + xx] * mask[(dy + radius) * 5 + (dx + radius)];
        }
      }
      result[y * width + x] = value;
    }
  }
}
