// takes: in:333 in:19 out:333 333 19
// recipes: parallel_outer
extern "C" void solve(const float* x, const float* taps, float* y, long n, long m) {
  for (long t = 0; t < n; t++) {
    float acc = 0.0f;
    for (long k = 0; k < m; k++) {
      if (t - k < 0) break;
      acc += taps[k] * x[t - k];
    }
    y[t] = acc;
  }
}
