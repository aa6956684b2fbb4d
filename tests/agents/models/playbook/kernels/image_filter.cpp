// takes: in:23x71 in:5x5 out:23x71 23 71 5
// recipes: parallel_outer
extern "C" void solve(const float* img, const float* ker, float* out, int h, int w, int k) {
  int r = k / 2;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float acc = 0.0f;
      for (int dy = -r; dy <= r; dy++)
        for (int dx = -r; dx <= r; dx++) {
          int yy = y + dy;
          int xx = x + dx;
          if (yy < 0) yy = 0;
          if (yy >= h) yy = h - 1;
          if (xx < 0) xx = 0;
          if (xx >= w) xx = w - 1;
          acc += img[yy * w + xx] * ker[(dy + r) * k + dx + r];
        }
      out[y * w + x] = acc;
    }
}
