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
