// takes: in:2x3x1813 in:5x27 in:5 out:10x1645 2 3 37 49 5 3
// recipes: interchange simd_reduction parallel_outer
extern "C" void solve(const float* in, const float* w, const float* bias, float* out,
                      int N, int C, int H, int W, int K, int R) {
  int OH = H - R + 1, OW = W - R + 1;
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++)
      for (int y = 0; y < OH; y++)
        for (int x = 0; x < OW; x++) {
          float acc = bias[k];
          for (int c = 0; c < C; c++)
            for (int r = 0; r < R; r++)
              for (int s = 0; s < R; s++)
                acc += in[((n * C + c) * H + y + r) * W + x + s] * w[((k * C + c) * R + r) * R + s];
          out[((n * K + k) * OH + y) * OW + x] = acc;
        }
}
