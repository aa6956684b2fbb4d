#include <cuda_runtime.h>

__global__ void clear(int* out, int N) {
  asm volatile("griddepcontrol.launch_dependents;");
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < N) out[i] = 0;
}

__global__ void rank(const int* x, int* out, int N) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  int i = blockIdx.x * 64 + threadIdx.x, count = 0, width = (N + 15) / 16;
  if (i >= N) return;
  int mine = x[i];
  for (int j = blockIdx.y * width; j < min(N, (int)(blockIdx.y + 1) * width); ++j) count += x[j] < mine;
  atomicAdd(out + i, count);
}

extern "C" void solve(const int* x, int* out, int N) {
  clear<<<(N + 255) / 256, 256>>>(out, N);
  cudaLaunchAttribute given = {};
  given.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  given.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t shape = {};
  shape.gridDim = dim3((N + 63) / 64, 16);
  shape.blockDim = dim3(64);
  shape.attrs = &given;
  shape.numAttrs = 1;
  cudaLaunchKernelEx(&shape, rank, x, out, N);
}
