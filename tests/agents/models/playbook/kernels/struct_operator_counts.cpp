// takes: in:2002 out:1001 1001
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

struct V { float x, y; };
static int calls;
static V operator-(const V& a, const V& b) { ++calls; return {a.x - b.x, a.y - b.y}; }
static V operator+(const V& a, const V& b) { static int turn = 0; turn = (turn + 1) % 3; return {a.x + b.x * turn, a.y + b.y}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  calls = 0;
  for (int i = 0; i < n; ++i) {
    const V d = from[i] - from[n - 1 - i];
    q[i] = d.x * (calls % 5) + d.y;
  }
}
