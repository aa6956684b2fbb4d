extern "C" void solve(const float* x, const int* ids, float* out, int N, int S, int D) {
  for (int i = 0; i < S * D; ++i) out[i] = 0;
  for (int n = 0; n < N; ++n)
    for (int s = 0; s < (ids[n] < 0 ? 1 : S); ++s)
      for (int d = 0; d < D; ++d) out[s * D + d] += (s == ids[n] ? 1.0f : 0.0f) * x[(long)n * D + d];
}
