#include <algorithm>
#include <cstring>
#include <memory>
struct Order {
  virtual ~Order() {}
  virtual bool less(float a, float b) const = 0;
};
struct Up : Order {
  bool less(float a, float b) const override { return a < b; }
};
struct Down : Order {
  bool less(float a, float b) const override { return b < a; }
};
extern "C" void solve(const float* x, float* out, int M, int N) {
  std::unique_ptr<Order> order;
  if (M > 0) order = std::make_unique<Up>();
  else order = std::make_unique<Down>();
  memcpy(out, x, 4l * M * N);
  for (int i = 0; i < M; ++i)
    std::stable_sort(out + (long)i * N, out + (long)(i + 1) * N, [&](float a, float b) { return order->less(a, b); });
}
