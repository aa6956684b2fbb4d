// takes: in:10007 in:10007 out:1 10007
// recipes: simd_reduction parallel_outer
extern "C" void solve(const float* x, const float* y, float* out, int n) {
  float d = 0.f;
  for (int i = 0; i < n; i++) d += x[i] * y[i];
  out[0] = d;
}
