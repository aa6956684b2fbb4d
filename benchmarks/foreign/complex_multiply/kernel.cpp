// Product of two complex vectors stored as (real, imaginary) pairs, times the conjugate of a third.
#include <complex>
#include <cstddef>

extern "C" void solve(const float* a, const float* b, const float* c, float* out, int N) {
  typedef std::complex<float> Complex;
  const Complex* u = reinterpret_cast<const Complex*>(a);
  const Complex* v = reinterpret_cast<const Complex*>(b);
  const Complex* w = reinterpret_cast<const Complex*>(c);
  Complex* o = reinterpret_cast<Complex*>(out);
  for (std::size_t i = 0; i < std::size_t(N); ++i) {
    o[i] = u[i] * v[i] * std::conj(w[i]);
  }
}
