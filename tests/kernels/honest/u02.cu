#include <cooperative_groups.h>
#include <cuda_runtime.h>

__global__ void count(const int* x, int* out, int N, int B) {
  __shared__ int bins[64];
  auto grid = cooperative_groups::this_grid();
  if (blockIdx.x == 0 && threadIdx.x < B) out[threadIdx.x] = 0;
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 512 + threadIdx.x; i < N; i += gridDim.x * 512) atomicAdd(bins + x[i] % B, 1);
  grid.sync();
  if (threadIdx.x < B) atomicAdd(out + threadIdx.x, bins[threadIdx.x]);
}

extern "C" void solve(const int* x, int* out, int N, int B) {
  void* given[] = {&x, &out, &N, &B};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(count), dim3(64), dim3(512), given, 0, 0);
}
