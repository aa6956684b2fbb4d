// takes: in:80011 out:80011 80011
// recipes: simd_loop parallel_outer
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct View { const float* d; int ld; float at(long i, long j) const { return d[i * ld / 65536 + j]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, 65536};
  for (int i = 0; i < n / 2; ++i) y[i] = v.at(i * 2, 1);
  for (int i = n / 2; i < n; ++i) y[i] = 0.0f;
}
