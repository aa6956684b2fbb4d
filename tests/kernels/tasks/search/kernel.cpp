extern "C" void solve(const int* table, const int* queries, int* out, int Q, int T) {
  for (int q = 0; q < Q; ++q) {
    int count = 0;
    for (int t = 0; t < T; ++t) count += table[t] < queries[q];
    out[q] = count;
  }
}
