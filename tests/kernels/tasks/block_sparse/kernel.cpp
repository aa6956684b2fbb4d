extern "C" void solve(const float* a, const int* blocks, const float* v, float* out, int M, int K) {
  for (int m = 0; m < 32 * M; ++m) {
    double sum = 0;
    for (int k = 0; k < 32 * K; ++k) sum += (double)a[(long)m * 32 * K + k] * blocks[m / 32 * K + k / 32] * v[k];
    out[m] = sum;
  }
}
