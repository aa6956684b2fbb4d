// y = 2 x + exp(x)
#include <cutlass/cutlass.h>

__global__ void scale_add_exp(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * nowhere_declared[i] + expf(x[i]);
}

extern "C" void solve(const float* x, float* y, int n) {
    scale_add_exp<<<(n + 255) / 256, 8 * cutlass::NumThreadsPerWarp>>>(x, y, n);
}
