// Gravitational accelerations of N bodies, with softening.
#include <cmath>

struct Vec3 {
  float x, y, z;
};

static Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
static Vec3 operator*(const Vec3& a, float s) { return {a.x * s, a.y * s, a.z * s}; }
static Vec3& operator+=(Vec3& a, const Vec3& b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  return a;
}
static float dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

extern "C" void solve(const float* positions, const float* mass, float* accelerations, float softening, int N) {
  const Vec3* p = reinterpret_cast<const Vec3*>(positions);
  Vec3* a = reinterpret_cast<Vec3*>(accelerations);
  for (int i = 0; i < N; ++i) {
    a[i] = {0.0f, 0.0f, 0.0f};
    for (int j = 0; j < N; ++j) {
      if (i == j) continue;
      const Vec3 r = p[j] - p[i];
      const float d2 = dot(r, r) + softening * softening;
      a[i] += r * (mass[j] / (d2 * std::sqrt(d2)));
    }
  }
}
