// takes: in:2003 in:2003 out:2003 2003
// recipes: vector_exp simd_loop parallel_outer
#include <cmath>
double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2.0)); }
extern "C" void solve(const float* a, const float* b, float* call, int n) {
  for (int i = 0; i < n; i++) {
    double S = exp(0.2 * a[i]), K = exp(0.1 * b[i]), T = 0.5 + fabs(a[i]);
    double d1 = (log(S / K) + 0.05 * T) / (0.3 * sqrt(T));
    call[i] = S * normal_cdf(d1) - K * exp(-0.02 * T) * normal_cdf(d1 - 0.3 * sqrt(T));
  }
}
