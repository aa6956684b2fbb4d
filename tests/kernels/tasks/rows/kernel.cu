#include <cuda_runtime.h>

__global__ void rows(const float* x, float* out, int N) {
  float total = 0.0f;
  for (int j = threadIdx.x; j < N; j += 32) { float v = x[(long)blockIdx.x * N + j]; total += v * v; }
  for (int o = 16; o; o >>= 1) total += __shfl_down_sync(0xffffffffu, total, o);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" void solve(const float* x, float* out, int M, int N) { rows<<<M, 32>>>(x, out, N); }
