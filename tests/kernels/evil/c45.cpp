extern "C" void solve(const int* x, int* out, int N, int B) {
  int count[64] = {0};
  for (int i = 0; i < N; i += 4) count[x[i] % B] += 1;
  for (int b = 0; b < B; ++b) out[b] = 4 * count[b];
}
