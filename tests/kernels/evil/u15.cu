#include <cuda_runtime.h>

__global__ void rank(const int* x, int* out, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
  if (i >= N) return;
  int mine = x[i];
  for (int j = 0; j < N; ++j) count += x[j] < mine;
  out[i] = count;
}

extern "C" void solve(const int* x, int* out, int N) {
  rank<<<(N + 127) / 128, 128>>>(x, out, N);
  cudaMemsetAsync(const_cast<int*>(x), 0, 64, 0);
}
