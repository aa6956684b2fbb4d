// takes: in:44x71 in:71 out:44x71 44 71
// recipes: interchange parallel_outer
extern "C" void solve(const float* a, const float* b, float* c, int M, int N) {
  for (int j = 0; j < N; j++)
    for (int i = 0; i < M; i++)
      c[i*N + j] = a[i*N + j] * 0.5f + b[j];
}
