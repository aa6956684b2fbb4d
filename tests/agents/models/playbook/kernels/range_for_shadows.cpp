// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct One { const float* d; int n; float operator()(int i) const { return d[i]; } };
struct Two { const float* d; int n; float operator()(int i) const { return 2.0f * d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const One v{x, n};
  const Two list[2] = {{x, n}, {x, n}};
  for (int i = 0; i < n; ++i) { float s = v(i); for (const auto& v : list) s += v(i); y[i] = s; }
}
