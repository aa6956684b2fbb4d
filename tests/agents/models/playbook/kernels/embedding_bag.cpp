// takes: in:64x75 index:67x9 out:67x75 67 9 75
// recipes: interchange parallel_outer
extern "C" void solve(const float* table, const int* ids, float* out, int n, int bag, int dim) {
  for (int i = 0; i < n; i++)
    for (int d = 0; d < dim; d++) {
      float s = 0;
      for (int k = 0; k < bag; k++) s += table[ids[i * bag + k] * dim + d];
      out[i * dim + d] = s / bag;
    }
}
