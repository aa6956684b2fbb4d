// takes: index:500 inout:64 500
// recipes:
extern "C" void solve(const int* bin, float* count, int n) {
  for (int i = 0; i < n; i++) count[bin[i]] += 1.0f;
}
