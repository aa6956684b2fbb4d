// takes: in:77x77 in:77x77 out:77x77 77
// recipes: interchange simd_loop parallel_outer
extern "C" void solve(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      c[i*n+j] = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        c[i*n+j] += a[i*n+k] * b[k*n+j];
}
