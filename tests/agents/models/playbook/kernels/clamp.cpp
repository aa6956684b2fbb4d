// takes: in:23x57 out:23x57 23 57
// recipes: simd_loop parallel_outer
extern "C" void solve(const float* a, float* r, int n, int c) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < c; j++) {
      if (a[i*c+j] > 0.5f) {
        r[i*c+j] = 0.5f;
      } else {
        r[i*c+j] = a[i*c+j] * 2.0f;
      }
    }
}
