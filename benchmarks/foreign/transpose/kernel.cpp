// B = A^T.
extern "C" void solve(const float* A, float* B, int rows, int cols) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      B[c * rows + r] = A[r * cols + c];
}
