// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct View { const float* d; int n; float operator ()(int i) { return d[i]; } float operator ()(int i) const { return -d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v(i);
}
