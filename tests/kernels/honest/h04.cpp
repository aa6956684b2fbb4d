extern "C" void solve(const float* table, const int* bags, float* out, int V, int B, int D) {
#pragma omp parallel for schedule(dynamic, 8)
  for (int b = 0; b < B; ++b) {
    float* to = out + (long)b * D;
    for (int d = 0; d < D; ++d) to[d] = 0;
    for (int i = 0; i < 32; ++i) {
      const float* row = table + (long)bags[b * 32 + i] * D;
#pragma omp simd
      for (int d = 0; d < D; ++d) to[d] += row[d];
    }
  }
}
