// Kernels that each have one planted cause of slowness, and three that have none. `plants` launches each once, in the order of causes.json.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>

#define GRID_STRIDE(i, n) for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
const int SMS_FALLBACK = 128;

__global__ void fp64_by_accident(float* o, const float* a, size_t n) {
  GRID_STRIDE(i, n) { double x = a[i]; double s = 0.1, t = 0.2; for (int k = 0; k < 128; ++k) { s = s * 1.0000001 + x; t = t * 0.9999999 - x; } o[i] = (float)(s + t); }
}
__global__ void special_functions(float* o, const float* a, size_t n) {
  GRID_STRIDE(i, n) { float x = a[i], s = 0, t = 0; for (int k = 0; k < 64; ++k) { s += __expf(x + k); t += __sinf(x - k); } o[i] = s + t; }
}
__global__ void integer_work(unsigned* o, const unsigned* a, size_t n) {
  GRID_STRIDE(i, n) { unsigned x = a[i], y = ~x, z = x >> 3; for (int k = 0; k < 256; ++k) { x ^= x << 13; y = (y ^ z) & (x | k); z ^= y >> 7; x ^= z >> 17; } o[i] = x ^ y ^ z; }
}
__global__ void integer_division(unsigned* o, const unsigned* a, size_t n, unsigned d) {
  GRID_STRIDE(i, n) { unsigned x = a[i], s = 0; for (int k = 0; k < 32; ++k) { s += (x + k) / (d + k); s ^= (x ^ s) % (d + 2 * k + 1); } o[i] = s; }
}
__global__ void unfused(float* o, const float* a, size_t n) {
  GRID_STRIDE(i, n) { float x = a[i]; float s[8]; for (int j = 0; j < 8; ++j) s[j] = x + j;
    for (int k = 0; k < 256; ++k) for (int j = 0; j < 8; ++j) s[j] = __fadd_rn(__fmul_rn(s[j], 0.999f), x);
    float r = 0; for (int j = 0; j < 8; ++j) r += s[j]; o[i] = r; }
}
__global__ void one_address(unsigned* o, const unsigned* a, size_t n, unsigned bins) { GRID_STRIDE(i, n) atomicAdd(o + a[i] % bins, a[i] & 7); }
__global__ void one_bin(unsigned* o, const unsigned* a, size_t n, unsigned bins) {
  __shared__ unsigned h[256]; for (int k = threadIdx.x; k < 256; k += blockDim.x) h[k] = 0; __syncthreads();
  GRID_STRIDE(i, n) atomicAdd(h + a[i] % bins, 1 + (a[i] & 1)); __syncthreads();
  for (int k = threadIdx.x; k < 256; k += blockDim.x) atomicAdd(o + k, h[k]);
}
__global__ void divergent(float* o, const float* a, size_t n) {
  GRID_STRIDE(i, n) { float x = a[i]; int lane = threadIdx.x % 32; int turns = 8 + lane * lane; for (int k = 0; k < turns; ++k) x = x * 0.999f + (lane & 1 ? 0.5f : x); o[i] = x; }
}
__global__ void one_lane_works(float* o, const float* a, size_t n) {
  GRID_STRIDE(i, n) { float x = a[i]; if (threadIdx.x % 32 == 0) for (int k = 0; k < 512; ++k) x = x * 0.999f + 0.1f; o[i] = x; }
}
__global__ void uneven_blocks(float* o, const float* a, size_t n) {
  float x = a[threadIdx.x]; int turns = blockIdx.x % gridDim.x < 8 ? 400000 : 2000; for (int k = 0; k < turns; ++k) x = x * 0.999f + 0.1f;
  o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x;
}
__global__ void __launch_bounds__(1024, 1) tail_wave(float* o, const float* a, size_t n) {
  extern __shared__ float room[]; room[threadIdx.x] = a[threadIdx.x]; __syncthreads(); float x = room[(threadIdx.x + 1) % blockDim.x];
  for (int k = 0; k < 40000; ++k) x = x * 0.999f + 0.1f; o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x;
}
__global__ void tiny_blocks(float* o, const float* a, size_t n) { GRID_STRIDE(i, n) { float x = a[i]; for (int k = 0; k < 8; ++k) x = a[(i * 31 + (size_t)(x * 7) + k * 4097) % n]; o[i] = x; } }
__constant__ float table[8192];
__global__ void constant_by_lane(float* o, const float* a, size_t n) { GRID_STRIDE(i, n) { float s = 0; for (int k = 0; k < 64; ++k) s += table[(threadIdx.x * 61 + k * 17) % 8192]; o[i] = s + a[i]; } }
template <int N> __device__ __forceinline__ float spelled(float x, float y) {
#pragma unroll
  for (int k = 1; k <= N; ++k) { float z = y * (1.0f + k * 1e-6f) + x; y = x * (1.0f - k * 1e-6f) + N; x = z; }
  return x;
}
__global__ void long_code(float* o, const float* a, size_t n) {
  int which = threadIdx.x / 32 % 8; float x = a[threadIdx.x]; 
  for (int k = 0; k < 64; ++k) switch ((which + k) % 8) {
    case 0: x = spelled<840>(x, 1.f); break; case 1: x = spelled<841>(x, 2.f); break; case 2: x = spelled<842>(x, 3.f); break; case 3: x = spelled<843>(x, 4.f); break;
    case 4: x = spelled<844>(x, 5.f); break; case 5: x = spelled<845>(x, 6.f); break; case 6: x = spelled<846>(x, 7.f); break; default: x = spelled<847>(x, 8.f); }
  o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x;
}
__global__ void l2_reread(float* o, const float4* a, size_t n) { float s = 0; for (int r = 0; r < 16; ++r) { size_t at = (blockIdx.x * 977 + r * 131) % gridDim.x * (size_t)blockDim.x + threadIdx.x; for (int k = 0; k < 4; ++k) { float4 v = __ldcg(a + (at + k * 65537) % n); s += v.x + v.y + v.z + v.w; } } o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = s; }
__global__ void l1_reread(float* o, const float* a, size_t n) { float s = 0; for (int k = 0; k < 2048; k += 4) { s += a[(threadIdx.x + k) % 2048] + a[(threadIdx.x + k + 32) % 2048] + a[(threadIdx.x + k + 64) % 2048] + a[(threadIdx.x + k + 96) % 2048]; } o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = s; }
__global__ void strided_store(float* o, const float* a, size_t n) { GRID_STRIDE(i, n) o[i % (n / 32) * 32 + i / (n / 32)] = a[i]; }
__global__ void array_of_structs(float* o, const float* a, size_t n) { GRID_STRIDE(i, n / 8) o[i] = a[8 * i + 3] * 2.0f; }
__global__ void gather(float* o, const float* a, const unsigned* index, size_t n) { GRID_STRIDE(i, n) o[i] = a[index[i] % n]; }
__global__ void local_array(float* o, const unsigned* a, size_t n) {
  GRID_STRIDE(i, n) { float held[64]; for (int k = 0; k < 64; ++k) held[k] = k * 0.5f + a[i]; for (int k = 0; k < 64; ++k) held[(a[i] + k * 7) % 64] += held[(a[i] * 3 + k) % 64]; o[i] = held[a[i] % 64]; }
}
__global__ void shared_store_conflicts(float* o, const float* a, size_t n) {
  __shared__ float s[32 * 64]; float x = a[threadIdx.x]; for (int k = 0; k < 512; ++k) { s[threadIdx.x % 64 * 32 + k % 32] = x; x += s[k]; } o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x;
}
__global__ void shared_chase(float* o, const unsigned* a, size_t n) {
  __shared__ unsigned s[1024]; for (int k = threadIdx.x; k < 1024; k += blockDim.x) s[k] = (k * 33 + 97) % 1024; __syncthreads();
  unsigned at = threadIdx.x; for (int k = 0; k < 4096; ++k) at = s[at]; o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = at;
}
__global__ void sleeper(float* o, const float* a, size_t n) { float x = a[threadIdx.x]; for (int k = 0; k < 32; ++k) { __nanosleep(400); x += k; } o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x; }
__global__ void textures(float* o, cudaTextureObject_t t, size_t n) { GRID_STRIDE(i, n) { float s = 0; for (int k = 0; k < 32; ++k) s += tex1Dfetch<float>(t, (int)((i + k * 33) % 65536)); o[i] = s; } }
__global__ void empty(float* o) { if (o == nullptr) o[0] = 1; }
__global__ void many_passes(float* o, const float* a, size_t n) { float s = 0, m = 0; for (int r = 0; r < 4; ++r) { GRID_STRIDE(i, n) { float v = a[i]; s += r & 1 ? v - m : v * v; } m = s; } o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = s; }
__global__ void one_load_in_flight(float* o, const float* a, size_t n) { size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, step = gridDim.x * (size_t)blockDim.x; float s = 0; for (size_t k = i; k < n; k += step) { s += *(volatile const float*)(a + k); if (s == 12345.f) k += (size_t)s; s = s * 0.5f; } o[i] = s; }
__global__ void indirect_branches(float* o, const float* a, size_t n) {
  float x = a[threadIdx.x]; unsigned h = threadIdx.x / 32 + blockIdx.x; for (int k = 0; k < 2048; ++k) { h = h * 1664525u + 1013904223u; if (h & 0x10000) { x += 1.5f; if (h & 0x20000) x *= 0.5f; else x -= 0.25f; } else if (h & 0x40000) { asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(x)); } __syncwarp(); }
  o[blockIdx.x * (size_t)blockDim.x + threadIdx.x] = x;
}
__global__ void wmma_from_global(float* o, const half* a, const half* b, int n) {
  using namespace nvcuda::wmma; int row = blockIdx.y * 16, col = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
  fragment<matrix_a, 16, 16, 16, half, row_major> fa; fragment<matrix_b, 16, 16, 16, half, row_major> fb; fragment<accumulator, 16, 16, 16, float> acc; fill_fragment(acc, 0.f);
  for (int k = 0; k < n; k += 16) { load_matrix_sync(fa, a + (size_t)row * n + k, n); load_matrix_sync(fb, b + (size_t)k * n + col, n); mma_sync(acc, fa, fb, acc); }
  store_matrix_sync(o + (size_t)row * n + col, acc, n, mem_row_major);
}
__global__ void half_one_by_one(__half* o, const __half* a, size_t n) { GRID_STRIDE(i, n) o[i] = __hmul(a[i], __float2half(2.f)); }
__global__ void good_copy(float4* o, const float4* a, size_t n) { size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) __stcs(o + i, __ldcs(a + i)); }

int main(int argc, char** argv) {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); int sms = p.multiProcessorCount > 0 ? p.multiProcessorCount : SMS_FALLBACK;
  const size_t N = 1 << 26, S = 1 << 22;
  float *a, *o; cudaMalloc(&a, N * 4); cudaMalloc(&o, N * 4);
  unsigned* host = (unsigned*)malloc(N * 4); unsigned h = 12345; for (size_t i = 0; i < N; ++i) { h = h * 1664525u + 1013904223u; host[i] = h >> 8; }
  unsigned* u; cudaMalloc(&u, N * 4); cudaMemcpy(u, host, N * 4, cudaMemcpyHostToDevice); cudaMemset(a, 0, N * 4); cudaMemset(o, 0, N * 4);
  cudaResourceDesc r = {}; r.resType = cudaResourceTypeLinear; r.res.linear = {a, cudaCreateChannelDesc<float>(), 65536 * 4}; cudaTextureDesc d = {}; cudaTextureObject_t t; cudaCreateTextureObject(&t, &r, &d, nullptr);
  cudaFuncSetAttribute(tail_wave, cudaFuncAttributeMaxDynamicSharedMemorySize, 128 * 1024);
  unsigned* ou = (unsigned*)o; int full = sms * 8;
  for (size_t n : {S, 4 * S}) {
    int many = (int)(n / 256);
    fp64_by_accident<<<many, 256>>>(o, a, n); special_functions<<<many, 256>>>(o, a, n); integer_work<<<many, 256>>>(ou, u, n);
    integer_division<<<many, 256>>>(ou, u, n, 77); unfused<<<many, 256>>>(o, a, n / 2); one_address<<<many, 256>>>(ou, u, n, n == S ? 1 : 3);
    one_bin<<<full, 256>>>(ou, u, n, n == S ? 1 : 2); divergent<<<many, 256>>>(o, a, n); one_lane_works<<<many, 256>>>(o, a, n);
    uneven_blocks<<<full * (n == S ? 2 : 4), 128>>>(o, a, n); tail_wave<<<sms * (n == S ? 1 : 2) + 3, 1024, 128 * 1024>>>(o, a, n);
    tiny_blocks<<<(int)(n / 32), 32>>>(o, a, n); constant_by_lane<<<many, 256>>>(o, a, n); long_code<<<full, 256>>>(o, a, n);
    l2_reread<<<full * (n == S ? 4 : 8), 256>>>(o, (float4*)a, S / 4); l1_reread<<<full * (n == S ? 1 : 4), 256>>>(o, a, n); strided_store<<<many, 256>>>(o, a, n);
    array_of_structs<<<many, 256>>>(o, a, 4 * n); gather<<<many, 256>>>(o, a, u, 4 * n); local_array<<<many / 4, 256>>>(o, u, n / 4);
    shared_store_conflicts<<<full, 256>>>(o, a, n); shared_chase<<<sms * (n == S ? 2 : 4), 128>>>(o, u, n); sleeper<<<full, 128>>>(o, a, n);
    textures<<<many, 256>>>(o, t, n); empty<<<1, n == S ? 32 : 128>>>(o); many_passes<<<full, 256>>>(o, a, 4 * n);
    one_load_in_flight<<<sms * 2, 128>>>(o, a, 4 * n); indirect_branches<<<full, 256>>>(o, a, n);
    int m = n == S ? 1024 : 2048; wmma_from_global<<<dim3(m / 64, m / 16), 128>>>(o, (half*)u, (half*)a, m);
    half_one_by_one<<<(int)(n * 4 / 256), 256>>>((__half*)o, (__half*)a, n * 4); good_copy<<<(int)(n * 4 / 4 / 256), 256>>>((float4*)o, (float4*)a, n * 4 / 4);
  }
  cudaError_t e = cudaDeviceSynchronize(); printf("%s\n", cudaGetErrorString(e)); return e != cudaSuccess;
}
