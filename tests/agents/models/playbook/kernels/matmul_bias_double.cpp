// takes: double-in:22x30 double-in:30x130 double-in:130 double-out:22x130 22 130 30
// recipes: interchange parallel_outer
extern "C" void solve(const double* left, const double* right, const double* bias, double* out, long m, long n, long k) {
  for (long r = 0; r < m; ++r) {
    for (long c = 0; c < n; ++c) {
      double total = bias[c];
      for (long t = 0; t < k; ++t) {
        total += left[r * k + t] * right[t * n + c];
      }
      out[r * n + c] = total > 0.0 ? total : 0.0;
    }
  }
}
