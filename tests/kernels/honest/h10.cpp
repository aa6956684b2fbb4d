#include <cstring>
#include <utility>
static void quick(float* from, float* to) {
  if (to - from < 2) return;
  std::swap(*from, from[(to - from) / 2]);
  float* least = from;
  for (float* at = from + 1; at < to; ++at)
    if (*at < *from) std::swap(*++least, *at);
  std::swap(*from, *least);
  quick(from, least);
  quick(least + 1, to);
}
extern "C" void solve(const float* x, float* out, int M, int N) {
  memcpy(out, x, 4l * M * N);
  for (int i = 0; i < M; ++i) quick(out + (long)i * N, out + (long)(i + 1) * N);
}
