#include <cmath>
extern "C" void solve(const float* x, const int* lengths, float* out, int R, int C) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int r = 0; r < R; ++r) {
    const float* row = x + (long)r * C;
    float* to = out + (long)r * C;
    float top = row[0];
    double sum = 0;
    for (int c = 1; c < lengths[r]; ++c) top = row[c] > top ? row[c] : top;
    for (int c = 0; c < lengths[r]; ++c) sum += to[c] = expf(row[c] - top);
    const float scale = 1.0 / sum;
    for (int c = 0; c < lengths[r]; ++c) to[c] *= scale;
  }
}
