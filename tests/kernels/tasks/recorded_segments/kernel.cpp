extern "C" void solve(const float* x, const signed char* ids, int count, float* out, int rows, int width) {
  for (long i = 0; i < (long)count * width; ++i) out[i] = 0;
  for (long n = 0; n < rows; ++n)
    for (long d = 0; d < width; ++d) out[ids[n] * (long)width + d] += x[n * width + d];
}
