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
  const Two w{x, n};
  auto get = [](const Two& v, int i) { float s = v(i); s += 1.0f; return s; };
  for (int i = 0; i < n; ++i) y[i] = v(i) + get(w, i);
}
