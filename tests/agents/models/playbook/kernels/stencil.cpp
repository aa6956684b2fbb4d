// takes: in:40x61 out:40x61 40 61
// recipes: simd_loop parallel_outer
extern "C" void solve(const float* u, float* v, int H, int W) {
  for (int i = 0; i < H * W; ++i) v[i] = u[i];
  for (int i = 1; i < H - 1; ++i)
    for (int j = 1; j < W - 1; ++j)
      v[i*W + j] = 0.25f * (u[(i-1)*W + j] + u[(i+1)*W + j] + u[i*W + j - 1] + u[i*W + j + 1]);
}
