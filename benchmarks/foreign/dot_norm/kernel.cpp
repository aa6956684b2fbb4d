// Dot product of two vectors and the Euclidean norm of the first, summed in double.
#include <cmath>
#include <cstddef>

static double ddot(std::size_t n, const float* a, const float* b) {
  double s = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    s += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return s;
}

extern "C" void solve(const float* x, const float* y, float* dot, float* norm, int N) {
  dot[0] = static_cast<float>(ddot(N, x, y));
  norm[0] = static_cast<float>(std::sqrt(ddot(N, x, x)));
}
