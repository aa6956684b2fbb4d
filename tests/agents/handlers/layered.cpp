// Copyright 2026 The Authors.
// SPDX-License-Identifier: MIT
#include <cmath>

namespace ops::detail {

template <typename T>
static inline T squared(T v) { return v * v; }

template <typename T, int B>
void scale(const T* x, T* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = squared(x[i]) * B;
}
template void scale<float, 8>(const float*, float*, int);

float sum(const float* x, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) s += x[i];
  return s;
}

}  // namespace ops::detail

extern "C" void solve(const float* x, float* y, int rows, int cols) {
  ops::detail::scale<float, 8>(x, y, rows * cols);
  y[0] = ops::detail::sum(x, rows * cols);
}
