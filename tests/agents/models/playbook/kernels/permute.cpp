// takes: in:2x3185 out:2x3185 2 35 7 13
// recipes: parallel_outer
extern "C" void solve(const float* in, float* out, int B, int S, int H, int D) {
  for (int b = 0; b < B; b++)
    for (int h = 0; h < H; h++)
      for (int d = 0; d < D; d++)
        for (int s = 0; s < S; s++)
          out[((b * H + h) * D + d) * S + s] = in[((b * S + s) * H + h) * D + d];
}
