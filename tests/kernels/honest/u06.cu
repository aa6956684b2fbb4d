#include <cuda_runtime.h>

__global__ void order(const int* x, int* out, int C) {
  __shared__ int row[256];
  __shared__ int turned;
  if (threadIdx.x == 0) turned = 0;
  long start = (long)blockIdx.x * C;
  for (int i = threadIdx.x; i < C; i += blockDim.x) row[i] = x[start + i];
  __syncthreads();
  for (int i = threadIdx.x; i + 1 < C; i += blockDim.x)
    if (row[i] > row[i + 1]) turned = 1;
  __syncthreads();
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    int mine = row[i], at = turned ? 0 : i;
    if (turned)
      for (int j = 0; j < C; ++j) at += row[j] < mine || (row[j] == mine && j < i);
    out[start + at] = mine;
  }
}

extern "C" void solve(const int* x, int* out, int R, int C) {
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  order<<<R, 256, 0, s>>>(x, out, C);
  cudaStreamEndCapture(s, &graph);
  cudaGraphInstantiate(&made, graph, 0);
  cudaGraphLaunch(made, 0);
  cudaStreamSynchronize(s);
  cudaGraphExecDestroy(made);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(s);
}
