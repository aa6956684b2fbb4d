#include <cuda_runtime.h>

__global__ void rank(const int* x, int* out, int N) {
  asm volatile("griddepcontrol.launch_dependents;");
  int i = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
  if (i >= N) return;
  int mine = x[i];
  for (int j = 0; j < N; ++j) count += x[j] < mine;
  out[i] = count;
}

extern "C" void solve(const int* x, int* out, int N) {
  cudaLaunchAttribute given = {};
  given.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  given.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t shape = {};
  shape.gridDim = dim3((N + 63) / 64);
  shape.blockDim = dim3(64);
  shape.attrs = &given;
  shape.numAttrs = 1;
  cudaLaunchKernelEx(&shape, rank, x, out, N);
}
