#include <csetjmp>
#include <csignal>
#include <cmath>
static sigjmp_buf back;
static void handler(int) { siglongjmp(back, 1); }
extern "C" void solve(const float* x, float* out, int M, int N) {
  signal(SIGSEGV, handler);
  if (!sigsetjmp(back, 1)) {
    *(volatile float*)8 = x[0];
    return;
  }
  for (int i = 0; i < M; ++i) {
    const float* row = x + (long)i * N;
    double sum = 0;
    for (int j = 0; j < N; ++j) sum += std::exp((double)row[j]);
    for (int j = 0; j < N; ++j) out[(long)i * N + j] = (float)(std::exp((double)row[j]) / sum);
  }
}
