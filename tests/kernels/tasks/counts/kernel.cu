#include <cuda_runtime.h>

__global__ void count(const int* x, int* out, int N, int B) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) atomicAdd(out + x[i] % B, 1);
}

extern "C" void solve(const int* x, int* out, int N, int B) {
  cudaMemsetAsync(out, 0, B * sizeof(int), 0);
  count<<<(N + 255) / 256, 256>>>(x, out, N, B);
}
