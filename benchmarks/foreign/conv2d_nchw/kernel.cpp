// Convolution layer, 3x3, padding 1, stride 1, with bias: NCHW activations, OIHW weights.
extern "C" void solve(const float* input, const float* weight, const float* bias, float* output, int N, int C, int OC, int H, int W) {
  for (int n = 0; n < N; n++) {
    for (int o = 0; o < OC; o++) {
      for (int h = 0; h < H; h++) {
        for (int w = 0; w < W; w++) {
          float sum = bias[o];
          for (int c = 0; c < C; c++) {
            for (int kh = 0; kh < 3; kh++) {
              for (int kw = 0; kw < 3; kw++) {
                int ih = h + kh - 1;
                int iw = w + kw - 1;
                if (ih >= 0 && ih < H && iw >= 0 && iw < W) {
                  sum += input[((n * C + c) * H + ih) * W + iw] * weight[((o * C + c) * 3 + kh) * 3 + kw];
                }
              }
            }
          }
          output[((n * OC + o) * H + h) * W + w] = sum;
        }
      }
    }
  }
}
