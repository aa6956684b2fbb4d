// takes: in:4097 out:4097 4097
// recipes: vector_exp simd_loop parallel_outer
#include <cmath>
namespace { float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); } }
extern "C" void solve(const float* a, float* r, unsigned long count) {
  for (unsigned long i = 0; i < count; i++) r[i] = gelu(a[i]);
}
