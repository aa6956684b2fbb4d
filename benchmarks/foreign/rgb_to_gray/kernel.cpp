// Luma of interleaved 8-bit RGB pixels with integer weights that sum to 256.
#include <cstdint>

extern "C" void solve(const uint8_t* rgb, uint8_t* gray, int H, int W) {
  for (int y = 0; y < H; ++y) {
    for (int x = 0; x < W; ++x) {
      const uint8_t* pixel = rgb + 3 * (y * W + x);
      int r = pixel[0];
      int g = pixel[1];
      int b = pixel[2];
      gray[y * W + x] = (uint8_t)((77 * r + 150 * g + 29 * b) >> 8);
    }
  }
}
