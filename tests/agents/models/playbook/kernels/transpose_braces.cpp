// takes: double-in:65x40 double-out:40x65 65 40
// recipes: parallel_outer
#include <cstddef>
extern "C" void solve(const double *src, double *dst, size_t r, size_t c) {
  for (size_t x = 0; x < c; x++) {
    for (size_t y = 0; y < r; y++) { dst[x * r + y] = src[y * c + x]; }
  }
}
