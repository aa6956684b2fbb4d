// takes: double-in:23x19 double-out:23x23 23 19
// recipes: simd_reduction simd_loop parallel_outer
#define A(i,j) a[(i)*k + (j)]
#define C(i,j) c[(i)*n + (j)]
extern "C" void solve(const double* a, double* c, int n, int k) {
  int i, j, p;
  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) C(i,j) = 0.0;
  for (i = 0; i < n; i++)
    for (j = 0; j <= i; j++) {
      double s = 0.0;
      for (p = 0; p < k; p++) s += A(i,p) * A(j,p);
      C(i,j) = s;
    }
}
