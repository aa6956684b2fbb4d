// takes: in:20011 out:20011 20011
// recipes:
#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>

#include <complex>

static float real_part(float x) { using T = float; const T a = x, b = 2.0f; return a * b; }
static float complex_part(float x) { using T = std::complex<float>;
   const T a(x, 1.0f), b(2.0f, x); const T c = a * b; return c.real() + c.imag();
   }
extern "C" void solve(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = real_part(x[i]) + complex_part(x[i]); }
