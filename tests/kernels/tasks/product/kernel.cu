#include <cuda_runtime.h>

__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
  if (i >= M || j >= N) return;
  float total = 0.0f;
  for (int k = 0; k < K; ++k) total += a[i * K + k] * b[k * N + j];
  c[i * N + j] = total;
}

extern "C" void solve(const float* a, const float* b, float* c, int M, int N, int K) {
  product<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K);
}
