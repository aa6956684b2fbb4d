// takes: double-in:27x27 double-in:27x21 double-out:27x21 27 21
// recipes: interchange parallel_outer
extern "C" void solve(const double* L, const double* B, double* X, int n, int m) {
  for (int j = 0; j < m; j++)
    for (int i = 0; i < n; i++) {
      double s = B[i*m+j];
      for (int k = 0; k < i; k++) s -= L[i*n+k] * X[k*m+j];
      X[i*m+j] = s / (L[i*n+i] + 100.0);
    }
}
