extern "C" void solve(const float* a, const float* v, float* out, int R, int C) {
  for (int r = 0; r < R; ++r) {
    double sum = 0;
    for (int c = 0; c < C; ++c) sum += (c <= r ? a[(long)r * C + c] : 0.0f * a[(long)r * C + c]) * (double)v[c];
    out[r] = sum;
  }
}
