// takes: in:3x5170 out:3x5170 3 55 94
// recipes: parallel_outer
extern "C" void solve(const float* a, float* b, int B, int H, int W) {
  for (int n = 0; n < B; ++n) {
    const float* s = a + n * H * W;
    float* d = b + n * H * W;
    for (int h = 0; h <= H - 1; ++h)
      for (int w = 0; w <= W - 1; ++w)
        d[w * H + h] = s[h * W + w];
  }
}
