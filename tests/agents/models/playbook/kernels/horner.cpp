// takes: in:1001 in:8 out:1001 1001 7
// recipes: parallel_outer
// Value of one polynomial at N points, lowest coefficient first, by Horner's rule.
extern "C" void solve(const float* x, const float* coefficient, float* y, int N, int degree) {
  for (int i = 0; i < N; ++i) {
    y[i] = coefficient[degree];
    for (int k = degree - 1; k >= 0; --k) {
      y[i] = y[i] * x[i] + coefficient[k];
    }
  }
}
