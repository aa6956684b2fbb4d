// takes: in:900 out:900 900
// recipes:
extern "C" void solve(const float* x, float* y, int n) {
  float t = 0;
  for (int i = 0; i < n; i++) { t += x[i]; y[i] = t; }
}
