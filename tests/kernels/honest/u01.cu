#include <cuda_runtime.h>

__device__ int scan(int v, int* part) {
  for (int o = 1; o < 32; o <<= 1) { int u = __shfl_up_sync(0xffffffffu, v, o); if ((int)threadIdx.x % 32 >= o) v += u; }
  if (threadIdx.x % 32 == 31) part[threadIdx.x / 32] = v;
  __syncthreads();
  for (int k = 0; k < (int)threadIdx.x / 32; ++k) v += part[k];
  return v;
}

__global__ void sums(const int* x, int* work, int N) {
  __shared__ int part[32];
  int i = blockIdx.x * 1024 + threadIdx.x, v = scan(i < N ? x[i] : 0, part);
  if (threadIdx.x == 1023) work[blockIdx.x] = v;
}

__global__ void prefix(const int* x, int* out, const int* work, int N) {
  __shared__ int part[32], before;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  int mine = 0;
  for (int k = threadIdx.x; k < (int)blockIdx.x; k += 1024) mine += work[k];
  if (mine) atomicAdd(&before, mine);
  int i = blockIdx.x * 1024 + threadIdx.x, v = scan(i < N ? x[i] : 0, part);
  __syncthreads();
  if (i < N) out[i] = before + v;
}

extern "C" void solve(const int* x, int* out, int N) {
  int* work;
  int blocks = (N + 1023) / 1024;
  cudaMallocAsync(&work, 16L << 20, 0);
  sums<<<blocks, 1024>>>(x, work, N);
  prefix<<<blocks, 1024>>>(x, out, work, N);
  cudaFreeAsync(work, 0);
}
