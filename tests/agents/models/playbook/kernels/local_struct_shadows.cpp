// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct View { const float* d; int n; float at(int i) const { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  struct View { const float* d; int n; float at(int i) const { return 3.0f * d[i]; } };
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v.at(i);
}
