#include <cmath>
#include <vector>
extern "C" void solve(const float* x, float* out, int N) {
  std::vector<int> order(N);
  int low = 0, high = N;
  for (int i = 0; i < N; ++i) {
    if (x[i] < 0) order[low++] = i;
    else order[--high] = i;
  }
  for (int k = 0; k < N; ++k) {
    const int i = order[k];
    out[i] = (float)(0.5 * x[i] * (1.0 + std::erf((double)x[i] * 0.70710678118654752)));
  }
}
