// takes: in:900 out:900 900
// recipes:
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = x[0];
  for (int i = 1; i < n; i++) y[i] = y[i-1] + x[i];
}
