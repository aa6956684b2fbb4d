// takes: double-in:19x41 double-out:19x41 19 41
// recipes: vector_exp simd_reduction simd_loop parallel_outer
#include <math.h>
extern "C" {
void solve(const double* a, double* b, int n, int d)
{
  int i, j;
  double mx, sum;
  for (i = 0; i < n; i++) {
    mx = a[i*d];
    for (j = 1; j < d; j++) if (a[i*d+j] > mx) mx = a[i*d+j];
    sum = 0.;
    for (j = 0; j < d; j++) sum += exp(a[i*d+j] - mx);
    for (j = 0; j < d; j++) b[i*d+j] = exp(a[i*d+j] - mx) / sum;
  }
}
}
