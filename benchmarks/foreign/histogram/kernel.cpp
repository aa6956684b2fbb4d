// How often each of B values occurs.
#include <cstdint>
#include <cstring>

extern "C" void solve(const int32_t* values, int32_t* counts, int N, int B) {
  memset(counts, 0, B * sizeof(int32_t));
  for (const int32_t* p = values; p != values + N; ++p) {
    counts[*p]++;
  }
}
