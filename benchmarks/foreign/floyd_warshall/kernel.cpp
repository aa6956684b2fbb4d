// Shortest paths between all pairs of nodes.
#include <cstring>

extern "C" void solve(const float* weights, float* dist, int N) {
  memcpy(dist, weights, sizeof(float) * N * N);
  for (int k = 0; k < N; ++k) {
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j < N; ++j) {
        if (dist[i * N + k] + dist[k * N + j] < dist[i * N + j]) {
          dist[i * N + j] = dist[i * N + k] + dist[k * N + j];
        }
      }
    }
  }
}
