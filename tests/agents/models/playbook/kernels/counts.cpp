#include <cstring>
extern "C" void solve(const int* values, int* counts, float* out, int n, int bins) {
  memset(counts, 0, bins * sizeof(int));
  for (const int* p = values; p != values + n; ++p) counts[*p]++;
  for (int b = 0; b < bins; ++b) out[b] = counts[b];
}
