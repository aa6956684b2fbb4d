// takes: in:41x41 out:41x41 41
// recipes: simd_loop parallel_outer
extern "C" void solve(const float* w, float* d, int n) {
  for (int i = 0; i < n * n; i++) d[i] = w[i] * w[i];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (d[i*n + k] + d[k*n + j] < d[i*n + j])
          d[i*n + j] = d[i*n + k] + d[k*n + j];
}
