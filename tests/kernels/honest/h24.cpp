#include <vector>
extern "C" void solve(const int* table, const int* queries, int* out, int Q, int T) {
  std::vector<int> index(1025, 0);
  for (int t = 0; t < T; ++t) {
    const unsigned at = (unsigned)table[t] >> 20;
    ++index[(at < 1023 ? at : 1023) + 1];
  }
  for (int k = 0; k < 1024; ++k) index[k + 1] += index[k];
  for (int q = 0; q < Q; ++q) {
    const int query = queries[q];
    const unsigned at = (unsigned)query >> 20;
    int t = query < 0 ? 0 : index[at < 1023 ? at : 1023];
    if (t > T) t = T;
    while (t > 0 && table[t - 1] >= query) --t;
    while (t < T && table[t] < query) ++t;
    out[q] = t;
  }
}
