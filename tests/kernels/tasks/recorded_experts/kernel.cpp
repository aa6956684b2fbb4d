extern "C" void solve(const float* x, const int* experts, float* out, int rows, int width) {
  for (long n = 0; n < rows; ++n) {
    long at = 0;
    for (long m = 0; m < rows; ++m) at += experts[m] < experts[n] || (experts[m] == experts[n] && m < n);
    for (long d = 0; d < width; ++d) out[at * width + d] = x[n * width + d];
  }
}
