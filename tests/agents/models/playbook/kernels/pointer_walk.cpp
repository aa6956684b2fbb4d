// takes: in:300 out:300 300
// recipes:
extern "C" void solve(const float* x, float* y, int n) {
  float* w = y;
  for (int i = 0; i < n; i++) *w++ = x[i] * 2.0f;
}
