// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct View { const float* d; int n; auto pair(int i) const { return d[i] + d[n - 1 - i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = 2.0f * v.pair(i);
}
