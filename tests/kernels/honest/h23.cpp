#include <algorithm>
extern "C" void solve(const int* table, const int* queries, int* out, int Q, int T) {
  for (int q = 0; q < Q; ++q) out[q] = (int)(std::lower_bound(table, table + T, queries[q]) - table);
}
