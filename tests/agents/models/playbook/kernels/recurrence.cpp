// takes: in:40x50 inout:40x50 40 50
// recipes:
extern "C" void solve(const float* x, float* y, int T, int D) {
  for (int t = 1; t < T; t++)
    for (int d = 0; d < D; d++)
      y[t*D + d] = 0.5f * y[(t-1)*D + d] + x[t*D + d];
}
