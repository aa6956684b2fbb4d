// Token plus position embedding: out[t] = table[ids[t]] * scale + positions[t % L].
#include <cstdint>

extern "C" void solve(const int64_t* ids, const float* table, const float* positions, float* out, float scale, int T, int L, int D) {
  for (int t = 0; t < T; ++t) {
    for (int d = 0; d < D; ++d) {
      out[t * D + d] = table[ids[t] * D + d] * scale + positions[(t % L) * D + d];
    }
  }
}
