// takes: in:20x16 inout:400 20 8 16
// recipes: simd_loop
extern "C" void solve(const float* x, float* y, int frames, int hop, int size) {
  for (int f = 0; f < frames; f++)
    for (int k = 0; k < size; k++)
      y[f * hop + k] += x[f * size + k];
}
