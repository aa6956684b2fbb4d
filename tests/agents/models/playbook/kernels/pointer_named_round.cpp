// takes: in:20011 out:20011 out:1 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

static float carry(float* p, float x) { p[0] = p[0] * 0.5f + x; return p[0]; }
static void run(float (*round)(float*, float), const float* x, float* y, float* last, int n) {
   for (int i = 0; i < n; ++i) y[i] = round(last, x[i]); }
extern "C" void solve(const float* x, float* y, float* last, int n) { last[0] = 0.0f; run(carry, x, y, last, n); }
