// takes: inout:30x30 30 30
// recipes:
extern "C" void solve(float* u, int H, int W) {
  for (int i = 1; i < H - 1; ++i)
    for (int j = 1; j < W - 1; ++j)
      u[i*W + j] = 0.25f * (u[(i-1)*W + j] + u[(i+1)*W + j] + u[i*W + j - 1] + u[i*W + j + 1]);
}
