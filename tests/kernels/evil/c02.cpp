extern "C" void solve(const float* a, const float* v, float* out, int R, int C) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int r = 0; r < R; ++r) {
    const float* row = a + (long)r * C;
    const int count = r + 1 < C ? r + 1 : C;
    double sum = 0;
    for (int c = count > 512 ? count - 512 : 0; c < count; ++c) sum += row[c] * (double)v[c];
    out[r] = sum;
  }
}
