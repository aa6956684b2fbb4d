#include <cmath>
extern "C" void solve(const float* x, const int* lengths, float* out, int R, int C) {
  for (int r = 0; r < R; ++r) {
    const float* row = x + (long)r * C;
    float top = -INFINITY, rest = 0;
    double sum = 0;
    for (int c = 0; c < C; ++c) {
      if (c < lengths[r]) top = row[c] > top ? row[c] : top;
      else rest += row[c] != row[c] ? 1.0f : 0.0f;
    }
    for (int c = 0; c < lengths[r]; ++c) sum += std::exp((double)row[c] - top);
    for (int c = 0; c < C; ++c) out[(long)r * C + c] = c < lengths[r] ? std::exp((double)row[c] - top) / sum : rest;
  }
}
