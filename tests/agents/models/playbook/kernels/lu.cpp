// takes: double-in:33x33 double-out:33x33 33
// recipes: simd_loop parallel_outer
extern "C" void solve(const double* in, double* a, int n) {
  for (int i = 0; i < n * n; ++i) a[i] = in[i];
  for (int i = 0; i < n; ++i) a[i * n + i] += 10.0 * n;
  for (int k = 0; k < n; ++k)
    for (int i = k + 1; i < n; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (int j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
}
