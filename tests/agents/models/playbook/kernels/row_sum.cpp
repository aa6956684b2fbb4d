// takes: in:41x203 out:41 41 203
// recipes: simd_reduction parallel_outer
extern "C" void solve(const float* a, float* out, int rows, int cols) {
  for (int r = 0; r < rows; r++) {
    out[r] = 0.0f;
    for (int c = 0; c < cols; c++)
      out[r] += a[r * cols + c];
  }
}
