extern "C" void solve(const int* x, int* out, int N, int B) {
  for (int b = 0; b < B; ++b) out[b] = 0;
  volatile int* counts = out;
#pragma omp parallel for schedule(static, 1) num_threads(4)
  for (int i = 0; i < N; ++i) counts[x[i] % B] = counts[x[i] % B] + 1;
}
