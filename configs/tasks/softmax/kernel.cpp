// Row-wise softmax, as a textbook writes it: out[i, :] = exp(x[i, :] - max) / sum. One thread, three passes over each row.
#include <cmath>

extern "C" void solve(const float* x, float* out, int M, int N) {
  for (int i = 0; i < M; ++i) {
    float largest = -INFINITY;
    for (int j = 0; j < N; ++j) {
      largest = fmaxf(largest, x[i * N + j]);
    }
    float sum = 0.0f;
    for (int j = 0; j < N; ++j) {
      out[i * N + j] = expf(x[i * N + j] - largest);
      sum += out[i * N + j];
    }
    for (int j = 0; j < N; ++j) {
      out[i * N + j] /= sum;
    }
  }
}
