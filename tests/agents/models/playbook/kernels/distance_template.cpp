// takes: in:37x51 in:29x51 out:37x29 37 29 51
// recipes:
#include <cmath>
template <typename T>
static T squared_distance(const T* p, const T* q, int dimensions) {
  T sum = T(0);
  while (dimensions-- > 0) {
    const T difference = *p++ - *q++;
    sum += difference * difference;
  }
  return sum;
}
extern "C" void solve(const float* X, const float* Y, float* distance, int M, int N, int D) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) distance[i * N + j] = std::sqrt(squared_distance(X + i * D, Y + j * D, D));
}
