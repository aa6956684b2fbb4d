// takes: in:75x133 out:133x75 75 133
// recipes: parallel_outer
extern "C" void solve(const float* in, float* out, int M, int N) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      out[j * M + i] = in[i * N + j];
}
