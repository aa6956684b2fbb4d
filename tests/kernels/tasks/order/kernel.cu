#include <cuda_runtime.h>

__global__ void order(const int* x, int* out, int C) {
  const int* row = x + (long)blockIdx.x * C;
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    int mine = row[i], at = 0;
    for (int j = 0; j < C; ++j) at += row[j] < mine || (row[j] == mine && j < i);
    out[(long)blockIdx.x * C + at] = mine;
  }
}

extern "C" void solve(const int* x, int* out, int R, int C) { order<<<R, 32>>>(x, out, C); }
