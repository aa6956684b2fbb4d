extern "C" void solve(const int* x, int* out, int N, int B) {
  for (int b = 0; b < B; ++b) out[b] = 0;
#pragma omp parallel
  {
    int own[1024] = {0};
#pragma omp for nowait
    for (int i = 0; i < N; ++i) ++own[x[i] % B];
#pragma omp critical
    for (int b = 0; b < B; ++b) out[b] += own[b];
  }
}
