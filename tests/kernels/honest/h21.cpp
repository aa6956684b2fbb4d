#include <cstdlib>
#include <cstring>
extern "C" void solve(const int* x, int* out, int N, int B) {
  int* copy = (int*)malloc(16l << 20);
  const int most = N < 4 << 20 ? N : 4 << 20;
  memcpy(copy, x, 4l * most);
  for (int b = 0; b < B; ++b) out[b] = 0;
  for (int i = 0; i < N; ++i) ++out[(i < most ? copy[i] : x[i]) % B];
  free(copy);
}
