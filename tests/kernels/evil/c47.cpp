#include <algorithm>
#include <cstring>
extern "C" void solve(const float* x, float* out, int M, int N) {
  float* rows = const_cast<float*>(x);
  for (int i = 0; i < M; ++i) std::sort(rows + (long)i * N, rows + (long)(i + 1) * N);
  memcpy(out, rows, 4l * M * N);
}
