#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
struct alignas(32) Eight { float of[8]; };
extern "C" __global__ void add_int(int* p, int v) { atomicAdd(p + threadIdx.x, v); }
extern "C" __global__ void add_float(float* p, float v) { atomicAdd(p + threadIdx.x, v); }
extern "C" __global__ void add_used(int* p, int* q) { q[threadIdx.x] = atomicAdd(p + q[threadIdx.x], 1); }
extern "C" __global__ void add_half(__half* p, __half v) { atomicAdd(p, v); }
extern "C" __global__ void add_bfloats(__nv_bfloat162* p, __nv_bfloat162 v) { atomicAdd(p, v); }
extern "C" __global__ void add_one_address(int* p, const int* x) { atomicAdd(p, x[threadIdx.x]); }
extern "C" __global__ void add_one_address_float(float* p, const float* x) { atomicAdd(p, x[threadIdx.x]); }
extern "C" __global__ void add_shared(float* p, int k) {
    __shared__ float sums[32];
    sums[threadIdx.x] = 0.0f;
    __syncthreads();
    atomicAdd(sums + k, p[threadIdx.x]);
    __syncthreads();
    p[threadIdx.x] = sums[threadIdx.x];
}
extern "C" __global__ void four(const float* __restrict__ x, float* __restrict__ y) {
    for (int k = 0; k < 4; ++k) y[4 * threadIdx.x + k] = x[4 * threadIdx.x + k];
}
extern "C" __global__ void four_aligned(const float* p, float* q) {
    const float* __restrict__ x = static_cast<const float*>(__builtin_assume_aligned(p, 16));
    float* __restrict__ y = static_cast<float*>(__builtin_assume_aligned(q, 16));
    for (int k = 0; k < 4; ++k) y[4 * threadIdx.x + k] = x[4 * threadIdx.x + k];
}
extern "C" __global__ void eight(const Eight* __restrict__ x, Eight* __restrict__ y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void wmma(const half* a, const half* b, float* c) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> left;
    fragment<matrix_b, 16, 16, 16, half, row_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}
