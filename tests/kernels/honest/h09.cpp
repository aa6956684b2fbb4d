#include <algorithm>
#include <cstring>
extern "C" void solve(const float* x, float* out, int M, int N) {
  memcpy(out, x, 4l * M * N);
  for (int i = 0; i < M; ++i) std::sort(out + (long)i * N, out + (long)(i + 1) * N);
}
