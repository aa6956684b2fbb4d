// Normal equations of ridge regression, factorised: X^T X + ridge I = L L^T, zeros above the diagonal.
#include <cmath>
#include <vector>

extern "C" void solve(const float* X, float* L, float ridge, int samples, int features) {
  const int n = features;
  std::vector<float> A(n * n);
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      float sum = (i == j) ? ridge : 0.0f;
      for (int s = 0; s < samples; s++) {
        sum += X[s * n + i] * X[s * n + j];
      }
      A[i * n + j] = sum;
      L[i * n + j] = 0.0f;
    }
  }
  for (int j = 0; j < n; j++) {
    for (int i = j; i < n; i++) {
      float sum = A[i * n + j];
      for (int k = 0; k < j; k++) {
        sum -= L[i * n + k] * L[j * n + k];
      }
      if (i == j) {
        L[i * n + j] = sqrtf(sum);
      } else {
        L[i * n + j] = sum / L[j * n + j];
      }
    }
  }
}
