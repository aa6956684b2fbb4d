// takes: in:301x70 index:301 out:301 301 70
// recipes: vector_exp simd_reduction simd_loop
#include <algorithm>
#include <cmath>
#include <vector>
static void log_softmax(const float* logits, float* result, int classes) {
  const float peak = *std::max_element(logits, logits + classes);
  double total = 0.0;
  for (int c = 0; c < classes; ++c) total += std::exp(logits[c] - peak);
  const float log_total = static_cast<float>(std::log(total));
  for (int c = 0; c < classes; ++c) result[c] = logits[c] - peak - log_total;
}
extern "C" void solve(const float* logits, const int* target, float* loss, int rows, int classes) {
  std::vector<float> log_probability(classes);
  for (int r = 0; r < rows; ++r) {
    log_softmax(logits + static_cast<std::size_t>(r) * classes, log_probability.data(), classes);
    loss[r] = -log_probability[target[r]];
  }
}
