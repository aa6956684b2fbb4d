// takes: in:21x150 out:21 21 150
// recipes: vector_exp simd_reduction parallel_outer
#include <algorithm>
#include <cmath>
static float row_max(const float* v, int n) {
    float m = v[0];
    for (int i = 1; i < n; i++) m = std::max(m, v[i]);
    return m;
}
static float log_sum_exp(const float* v, int n) {
    const float m = row_max(v, n);
    float total = 0.0f;
    for (int i = 0; i < n; i++) total += std::exp(v[i] - m);
    return m + std::log(total);
}
extern "C" void solve(const float* logits, float* loss, int batch, int classes) {
    for (int b = 0; b < batch; b++) loss[b] = log_sum_exp(logits + b * classes, classes);
}
