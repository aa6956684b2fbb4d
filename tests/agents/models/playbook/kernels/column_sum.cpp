// takes: in:91x333 out:333 91 333
// recipes: interchange parallel_outer
extern "C" void solve(const float* in, float* out, int M, int N) {
  for (int j = 0; j < N; ++j) {
    float s = 0.0f;
    for (int i = 0; i < M; ++i) s += in[i * N + j];
    out[j] = s / M;
  }
}
