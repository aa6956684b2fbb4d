extern "C" void solve(const int* table, const int* queries, int* out, int Q, int T) {
  int last = 0;
  for (int q = 0; q < Q; ++q) {
    if (q + 16 < Q) __builtin_prefetch(queries + q + 16);
    const int query = queries[q];
    int low = 0, high = T;
    if (last < T && table[last] < query) low = last + 1;
    else high = last < T ? last : T;
    while (low < high) {
      const int middle = (low + high) / 2;
      __builtin_prefetch(table + (low + middle) / 2);
      __builtin_prefetch(table + (middle + high) / 2);
      if (table[middle] < query) low = middle + 1;
      else high = middle;
    }
    out[q] = last = low;
  }
}
