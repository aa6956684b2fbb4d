#include <vector>
extern "C" void solve(const int* x, int* out, int N, int B) {
  std::vector<int> tables(64l * 1024, 0);
  for (int i = 0; i < N; ++i) ++tables[(i & 63) * 1024 + x[i] % B];
  for (int b = 0; b < B; ++b) {
    out[b] = 0;
    for (int k = 0; k < 64; ++k) out[b] += tables[k * 1024 + b];
  }
}
