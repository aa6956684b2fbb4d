#include <cuda_runtime.h>

__global__ void near(const float* x, float* out, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2], total = 0.0f;
  for (int j = 0; j < N; ++j) {
    float u = a - x[3 * j], v = b - x[3 * j + 1], w = c - x[3 * j + 2];
    total += 1.0f / sqrtf(u * u + v * v + w * w + 1.0f);
  }
  out[i] = total;
}

extern "C" void solve(const float* x, float* out, int N) { near<<<(N + 63) / 64, 64>>>(x, out, N); }
