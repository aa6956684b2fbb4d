#include <unordered_map>
extern "C" void solve(const int* x, int* out, int N, int B) {
  std::unordered_map<int, int> counts;
  for (int i = 0; i < N; ++i) ++counts[x[i] % B];
  for (int b = 0; b < B; ++b) out[b] = counts.count(b) ? counts[b] : 0;
}
