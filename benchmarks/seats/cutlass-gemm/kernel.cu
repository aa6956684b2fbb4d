// A product of bfloat16 matrices, the plain way: one thread for each element, everything read from global memory.
#include <cuda_bf16.h>

constexpr int TILE = 16;

__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M, int N, int K) {
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  if (row >= M || column >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k)
    sum += __bfloat162float(a[static_cast<long long>(row) * K + k]) * __bfloat162float(b[static_cast<long long>(k) * N + column]);
  c[static_cast<long long>(row) * N + column] = __float2bfloat16(sum);
}

extern "C" void solve(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M, int N, int K) {
  product<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), dim3(TILE, TILE)>>>(a, b, c, M, N, K);
}
