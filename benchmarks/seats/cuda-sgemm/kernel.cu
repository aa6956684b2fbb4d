// c = a b of float32 matrices, the plain way: one output a thread, everything from global memory.
#include <cuda_runtime.h>

constexpr int SIDE = 16;

__global__ void sgemm(const float* a, const float* b, float* c, int M, int N, int K) {
  int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
  if (row >= M || column >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += a[static_cast<long long>(row) * K + k] * b[static_cast<long long>(k) * N + column];
  c[static_cast<long long>(row) * N + column] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int M, int N, int K) {
  sgemm<<<dim3((N + SIDE - 1) / SIDE, (M + SIDE - 1) / SIDE), dim3(SIDE, SIDE)>>>(a, b, c, M, N, K);
}
