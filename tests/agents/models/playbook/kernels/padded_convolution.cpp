// takes: in:3x11x37 in:5x27 out:5x407 3 11 37 5
// recipes: interchange parallel_outer
extern "C" void solve(const float* x, const float* w, float* y, int C, int H, int W, int K) {
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < H; ++i)
      for (int j = 0; j < W; ++j) {
        float s = 0.0f;
        for (int c = 0; c < C; ++c)
          for (int u = 0; u < 3; ++u)
            for (int v = 0; v < 3; ++v) {
              int yy = i + u - 1, xx = j + v - 1;
              if (yy >= 0 && yy < H && xx >= 0 && xx < W)
                s += x[(c * H + yy) * W + xx] * w[((k * C + c) * 3 + u) * 3 + v];
            }
        y[(k * H + i) * W + j] = s;
      }
}
