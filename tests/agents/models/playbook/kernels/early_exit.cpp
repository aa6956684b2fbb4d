// takes: in:300 inout:300 300
// recipes:
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; i++) { if (x[i] > 3.9f) break; y[i] = x[i]; }
}
