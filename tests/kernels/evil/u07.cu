#include <cuda_runtime.h>

__global__ void count(const int* x, int* out, int* part, unsigned* ticket, int N, int B) {
  __shared__ int bins[64];
  __shared__ bool last;
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < N; i += gridDim.x * 256) atomicAdd(bins + x[i] % B, 1);
  __syncthreads();
  if (threadIdx.x < 64) part[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (!last || threadIdx.x >= B) return;
  int total = 0;
  for (int k = 0; k < (int)gridDim.x; ++k) total += __ldcg(part + k * 64 + threadIdx.x);
  out[threadIdx.x] = total;
}

extern "C" void solve(const int* x, int* out, int N, int B) {
  int* work;
  cudaMallocAsync(&work, 65 * 64 * sizeof(int), 0);
  count<<<64, 256>>>(x, out, work + 64, reinterpret_cast<unsigned*>(work), N, B);
  cudaFreeAsync(work, 0);
}
