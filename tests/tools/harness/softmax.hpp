#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>
#include <omp.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif
static void softmax(const float* x, float* out, int M, int N) {
  for (int i = 0; i < M; ++i) {
    float top = -INFINITY, sum = 0;
    for (int j = 0; j < N; ++j) top = fmaxf(top, x[i * N + j]);
    for (int j = 0; j < N; ++j) sum += out[i * N + j] = expf(x[i * N + j] - top);
    for (int j = 0; j < N; ++j) out[i * N + j] /= sum;
  }
}
