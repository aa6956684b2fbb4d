// takes: in:31x64 out:31x64 31
// recipes: fuse_passes simd_loop parallel_outer
extern "C" void solve(const float* x, float* z, int rows) {
  for (int r = 0; r < rows; ++r) {
    double t[64];
    for (int c = 0; c < 64; ++c) {
      t[c] = 2.0 * x[r * 64 + c];
    }
    for (int c = 0; c < 64; ++c) {
      z[r * 64 + c] = t[c] > 0 ? (float)t[c] : 0.5f * (float)t[c];
    }
  }
}
