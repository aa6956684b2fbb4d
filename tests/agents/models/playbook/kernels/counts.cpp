// takes: index:60001 index:64 out:64 60001 64
// recipes: simd_loop parallel_outer
#include <cstring>
extern "C" void solve(const int* values, int* counts, float* out, int n, int bins) {
  memset(counts, 0, bins * sizeof(int));
  for (const int* p = values; p != values + n; ++p) counts[*p]++;
  for (int b = 0; b < bins; ++b) out[b] = counts[b];
}
