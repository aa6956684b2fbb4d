// takes: in:67x301 out:67 67 301
// recipes: parallel_outer
extern "C" void solve(const float* x, float* where, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    int best = 0;
    for (int c = 1; c < cols; ++c)
      if (x[r * cols + c] > x[r * cols + best]) best = c;
    where[r] = best;
  }
}
