// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

namespace a { struct View { const float* d; int n; float at(int i) const { return d[i]; } }; }
namespace b { struct View { const float* d; int n; float at(int i) const { return 2.0f * d[i]; } };
static float two(const View& v, int i) { return v.at(i); } }
namespace a { static float one(const View& v, int i) { return v.at(i); } }
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = a::one(a::View{x, n}, i) + b::two(b::View{x, n}, i);
   }
