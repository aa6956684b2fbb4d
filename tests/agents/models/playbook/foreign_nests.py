"""Nests of loops in the styles that strangers write: products, convolutions, filters with borders, stencils, scratch rows."""

from __future__ import annotations

from foreign import Foreign

PADDED_CONVOLUTION = Foreign(
    """
extern "C" void solve(const float* x, const float* w, float* y, int C, int H, int W, int K) {
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < H; ++i)
      for (int j = 0; j < W; ++j) {
        float s = 0.0f;
        for (int c = 0; c < C; ++c)
          for (int u = 0; u < 3; ++u)
            for (int v = 0; v < 3; ++v) {
              int yy = i + u - 1, xx = j + v - 1;
              if (yy >= 0 && yy < H && xx >= 0 && xx < W)
                s += x[(c * H + yy) * W + xx] * w[((k * C + c) * 3 + u) * 3 + v];
            }
        y[(k * H + i) * W + j] = s;
      }
}
""",
    ("in:3x11x37", "in:5x27", "out:5x407", 3, 11, 37, 5),
)
CONVOLUTION_NCHW = Foreign(
    """
extern "C" void solve(const float* in, const float* w, const float* bias, float* out,
                      int N, int C, int H, int W, int K, int R) {
  int OH = H - R + 1, OW = W - R + 1;
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++)
      for (int y = 0; y < OH; y++)
        for (int x = 0; x < OW; x++) {
          float acc = bias[k];
          for (int c = 0; c < C; c++)
            for (int r = 0; r < R; r++)
              for (int s = 0; s < R; s++)
                acc += in[((n * C + c) * H + y + r) * W + x + s] * w[((k * C + c) * R + r) * R + s];
          out[((n * K + k) * OH + y) * OW + x] = acc;
        }
}
""",
    ("in:2x3x1813", "in:5x27", "in:5", "out:10x1645", 2, 3, 37, 49, 5, 3),
)
IMAGE_FILTER = Foreign(
    """
extern "C" void solve(const float* img, const float* ker, float* out, int h, int w, int k) {
  int r = k / 2;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float acc = 0.0f;
      for (int dy = -r; dy <= r; dy++)
        for (int dx = -r; dx <= r; dx++) {
          int yy = y + dy;
          int xx = x + dx;
          if (yy < 0) yy = 0;
          if (yy >= h) yy = h - 1;
          if (xx < 0) xx = 0;
          if (xx >= w) xx = w - 1;
          acc += img[yy * w + xx] * ker[(dy + r) * k + dx + r];
        }
      out[y * w + x] = acc;
    }
}
""",
    ("in:23x71", "in:5x5", "out:23x71", 23, 71, 5),
)
CLAMPED_FILTER = Foreign(
    """
#include <algorithm>
extern "C" void solve(const float* src, const float* weights, float* dst, int height, int width, int radius) {
  const int size = 2 * radius + 1;
  for (int row = 0; row < height; ++row) {
    for (int col = 0; col < width; ++col) {
      float total = 0.0f;
      for (int i = -radius; i <= radius; ++i) {
        for (int j = -radius; j <= radius; ++j) {
          const int r = std::min(std::max(row + i, 0), height - 1);
          const int c = std::min(std::max(col + j, 0), width - 1);
          total += src[r * width + c] * weights[(i + radius) * size + (j + radius)];
        }
      }
      dst[row * width + col] = total;
    }
  }
}
""",
    ("in:19x83", "in:7x7", "out:19x83", 19, 83, 3),
)
SEPARABLE_BLUR = Foreign(
    """
#include <vector>
extern "C" void solve(const float* in, const float* g, float* out, int h, int w, int r) {
  std::vector<float> tmp(h * w);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float s = 0;
      for (int k = -r; k <= r; k++) {
        int xx = x + k;
        if (xx < 0) xx = 0;
        if (xx > w - 1) xx = w - 1;
        s += g[k + r] * in[y * w + xx];
      }
      tmp[y * w + x] = s;
    }
  for (int x = 0; x < w; x++)
    for (int y = 0; y < h; y++) {
      float s = 0;
      for (int k = -r; k <= r; k++) {
        int yy = y + k;
        if (yy < 0) yy = 0;
        if (yy > h - 1) yy = h - 1;
        s += g[k + r] * tmp[yy * w + x];
      }
      out[y * w + x] = s;
    }
}
""",
    ("in:31x77", "in:9", "out:31x77", 31, 77, 4),
)
HEAT_3D = Foreign(
    """
#define U(z,y,x) u[((z)*ny + (y))*nx + (x)]
#define V(z,y,x) v[((z)*ny + (y))*nx + (x)]
extern "C" void solve(const float* u, float* v, int nz, int ny, int nx) {
  for (int z = 0; z < nz; z++)
    for (int y = 0; y < ny; y++)
      for (int x = 0; x < nx; x++) {
        if (z == 0 || y == 0 || x == 0 || z == nz-1 || y == ny-1 || x == nx-1)
          V(z,y,x) = U(z,y,x);
        else
          V(z,y,x) = 0.4f * U(z,y,x) + 0.1f * (U(z-1,y,x) + U(z+1,y,x) + U(z,y-1,x) + U(z,y+1,x) + U(z,y,x-1) + U(z,y,x+1));
      }
}
""",
    ("in:9x11x45", "out:9x11x45", 9, 11, 45),
)
PRODUCT_TRANSPOSED = Foreign(
    """
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      float sum = 0.f;
      for (int k = 0; k < K; ++k) {
        sum += A[i * K + k] * B[j * K + k];
      }
      C[i * N + j] = sum;
    }
  }
}
""",
    ("in:21x37", "in:30x37", "out:21x30", 21, 30, 37),
)
DISTANCES = Foreign(
    """
#include <cmath>
extern "C" void solve(const float* a, const float* b, float* d, int n, int m, int dim) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      float acc = 0.0f;
      for (int k = 0; k < dim; k++) {
        float t = a[i * dim + k] - b[j * dim + k];
        acc += t * t;
      }
      d[i * m + j] = sqrtf(acc);
    }
}
""",
    ("in:22x35", "in:29x35", "out:22x29", 22, 29, 35),
)
SYRK = Foreign(
    """
#define A(i,j) a[(i)*k + (j)]
#define C(i,j) c[(i)*n + (j)]
extern "C" void solve(const double* a, double* c, int n, int k) {
  int i, j, p;
  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) C(i,j) = 0.0;
  for (i = 0; i < n; i++)
    for (j = 0; j <= i; j++) {
      double s = 0.0;
      for (p = 0; p < k; p++) s += A(i,p) * A(j,p);
      C(i,j) = s;
    }
}
""",
    ("double-in:23x19", "double-out:23x23", 23, 19),
)
ATTENTION = Foreign(
    """
#include <cmath>
#include <vector>
extern "C" void solve(const float* Q, const float* K, const float* V, float* O, int T, int D) {
  const float scale = 1.0f / sqrtf((float)D);
  std::vector<float> p(T);
  for (int i = 0; i < T; ++i) {
    float mx = -INFINITY;
    for (int j = 0; j < T; ++j) {
      float s = 0.0f;
      for (int d = 0; d < D; ++d) s += Q[i * D + d] * K[j * D + d];
      p[j] = s * scale;
      if (p[j] > mx) mx = p[j];
    }
    float sum = 0.0f;
    for (int j = 0; j < T; ++j) { p[j] = expf(p[j] - mx); sum += p[j]; }
    for (int d = 0; d < D; ++d) {
      float o = 0.0f;
      for (int j = 0; j < T; ++j) o += p[j] * V[j * D + d];
      O[i * D + d] = o / sum;
    }
  }
}
""",
    ("in:33x20", "in:33x20", "in:33x20", "out:33x20", 33, 20),
)
LINEAR_RELU = Foreign(
    """
#include <algorithm>
extern "C" void solve(const float* x, const float* w, const float* b, float* y, int batch, int in_f, int out_f) {
  for (int n = 0; n < batch; ++n)
    for (int o = 0; o < out_f; ++o) {
      float acc = b[o];
      const float* wr = w + o * in_f;
      const float* xr = x + n * in_f;
      for (int i = 0; i < in_f; ++i) acc += wr[i] * xr[i];
      y[n * out_f + o] = std::max(acc, 0.0f);
    }
}
""",
    ("in:9x70", "in:23x70", "in:23", "out:9x23", 9, 70, 23),
)
PERMUTE = Foreign(
    """
extern "C" void solve(const float* in, float* out, int B, int S, int H, int D) {
  for (int b = 0; b < B; b++)
    for (int h = 0; h < H; h++)
      for (int d = 0; d < D; d++)
        for (int s = 0; s < S; s++)
          out[((b * H + h) * D + d) * S + s] = in[((b * S + s) * H + h) * D + d];
}
""",
    ("in:2x3185", "out:2x3185", 2, 35, 7, 13),
)
TRIANGULAR_SOLVE = Foreign(
    """
extern "C" void solve(const double* L, const double* B, double* X, int n, int m) {
  for (int j = 0; j < m; j++)
    for (int i = 0; i < n; i++) {
      double s = B[i*m+j];
      for (int k = 0; k < i; k++) s -= L[i*n+k] * X[k*m+j];
      X[i*m+j] = s / (L[i*n+i] + 100.0);
    }
}
""",
    ("double-in:27x27", "double-in:27x21", "double-out:27x21", 27, 21),
)
MOVING_WINDOW = Foreign(
    """
extern "C" void solve(const float* x, const float* taps, float* y, long n, long m) {
  for (long t = 0; t < n; t++) {
    float acc = 0.0f;
    for (long k = 0; k < m; k++) {
      if (t - k < 0) break;
      acc += taps[k] * x[t - k];
    }
    y[t] = acc;
  }
}
""",
    ("in:333", "in:19", "out:333", 333, 19),
)
SHORTEST_PATHS = Foreign(
    """
extern "C" void solve(const float* w, float* d, int n) {
  for (int i = 0; i < n * n; i++) d[i] = w[i] * w[i];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (d[i*n + k] + d[k*n + j] < d[i*n + j])
          d[i*n + j] = d[i*n + k] + d[k*n + j];
}
""",
    ("in:41x41", "out:41x41", 41),
)
WIDEST_PATHS = Foreign(
    """
#include <algorithm>
extern "C" void solve(const double* capacity, double* best, int n) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) best[i * n + j] = capacity[i * n + j];
  for (int via = 0; via < n; ++via)
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        best[from * n + to] = std::max(best[from * n + to], std::min(best[from * n + via], best[via * n + to]));
      }
    }
}
""",
    ("double-in:35x35", "double-out:35x35", 35),
)
CLOSURE = Foreign(
    """
extern "C" void solve(const float* given, float* m, long n) {
  for (long i = 0; i < n * n; ++i) m[i] = given[i] * 0.1f;
  for (long p = 0; p < n; ++p)
    for (long r = 0; r < n; ++r)
      for (long c = 0; c < n; ++c) m[r * n + c] = 0.5f * m[r * n + c] + 0.01f * m[r * n + p] * m[p * n + c];
}
""",
    ("in:29x29", "out:29x29", 29),
)
LU = Foreign(
    """
extern "C" void solve(const double* in, double* a, int n) {
  for (int i = 0; i < n * n; ++i) a[i] = in[i];
  for (int i = 0; i < n; ++i) a[i * n + i] += 10.0 * n;
  for (int k = 0; k < n; ++k)
    for (int i = k + 1; i < n; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (int j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
}
""",
    ("double-in:33x33", "double-out:33x33", 33),
)
STENCIL_COLUMNS = Foreign(
    """
#define AT(j, i) ((j) * nx + (i))
extern "C" void solve(const float* u, float* v, int ny, int nx) {
  for (int i = 0; i < nx; i++) {
    for (int j = 0; j < ny; j++) {
      if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1) v[AT(j, i)] = u[AT(j, i)];
      else v[AT(j, i)] = u[AT(j, i)] + 0.1f * (u[AT(j, i - 1)] + u[AT(j, i + 1)] + u[AT(j - 1, i)] + u[AT(j + 1, i)] - 4.0f * u[AT(j, i)]);
    }
  }
}
""",
    ("in:31x47", "out:31x47", 31, 47),
)
EDGES = Foreign(
    """
#include <cstdlib>
extern "C" void solve(const int* img, int* edges, int H, int W) {
  static const int GX[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
  for (int y = 0; y < H; y++) {
    for (int x = 0; x < W; x++) {
      if (y == 0 || x == 0 || y == H - 1 || x == W - 1) {
        edges[y * W + x] = 0;
        continue;
      }
      int g = 0;
      for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
          int p = img[(y + i - 1) * W + (x + j - 1)];
          g += GX[i][j] * p;
        }
      }
      edges[y * W + x] = abs(g) > 20 ? 255 : 0;
    }
  }
}
""",
    ("index:21x79", "index:21x79", 21, 79),
)
SMOOTH_ROWS = Foreign(
    """
extern "C" void solve(const float* x, float* y, int rows, int n) {
  float line[256];
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i) line[i] = x[r * n + i] * 2.0f;
    y[r * n] = 0.0f;
    for (int i = 1; i < n; ++i) y[r * n + i] = line[i] - line[i - 1];
  }
}
""",
    ("in:15x91", "out:15x91", 15, 91),
)

JACOBI_ROWS = Foreign(
    """
extern "C" void solve(const double* u, double* v, int h, int w) {
  for (int r = 0; r < h; r++)
    for (int c = 1; c < w - 1; c++)
      if (r == 0 || r == h - 1) v[r * w + c] = u[r * w + c];
      else v[r * w + c] = 0.5 * (u[r * w + c - 1] + u[r * w + c + 1]) + u[(r - 1) * w + c] - u[(r + 1) * w + c];
}
""",
    ("double-in:17x29", "double-inout:17x29", 17, 29),
)
SWITCHED = Foreign(
    """
extern "C" void solve(const float* x, float* y, long rows, long n, long mode) {
  for (long r = 0; r < rows; ++r) {
    for (long i = 0; i < n; ++i) {
      if (mode > 1) {
        y[r * n + i] = x[r * n + i] * 2.0f;
      } else if (mode == 1) {
        y[r * n + i] = x[r * n + i] - 1.0f;
      } else {
        y[r * n + i] = 0.0f;
      }
    }
  }
}
""",
    ("in:13x57", "out:13x57", 13, 57, 1),
)
SWITCHED_OLD_C = Foreign(
    """
extern "C" void solve(const float *x, float *y, int rows, int n)
{
    int r, i;
    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            if (r % 2 == 0)
                y[r * n + i] = x[r * n + i];
            else
                y[r * n + i] = -x[r * n + i];
}
""",
    ("in:14x33", "out:14x33", 14, 33),
)

COLUMN_POINTER = Foreign(
    """
#include <cstddef>
extern "C" void solve(const float* A, const float* x, float* y, int M, int N) {
  for (int j = 0; j < N; ++j) {
    float acc = 0;
    const float* column = A + j;
    for (int i = 0; i < M; ++i) {
      acc += *column * x[i];
      column += N;
    }
    y[j] = acc;
  }
}
""",
    ("in:45x83", "in:45", "out:83", 45, 83),
)
ROW_POINTERS = Foreign(
    """
extern "C" void solve(const double *a, const double *b, double *c, long rows, long cols)
{
    for (long r = 0; r < rows; r++) {
        const double *p = a + r * cols, *q = b;
        double s = 0.0;
        for (long k = 0; k < cols; k++) {
            s += *p * q[0];
            p++;
            ++q;
        }
        c[r] = s;
    }
}
""",
    ("double-in:19x67", "double-in:67", "double-out:19", 19, 67),
)
POINTER_TAIL = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  const float* from = x + 2;
  float* to = y + 1;
  y[0] = 0.0f;
  for (int i = 1; i <= n - 2; i++) {
    *to = from[-2] + from[-1] * 0.5f;
    from += 1;
    to++;
  }
  y[n - 1] = 1.0f;
}
""",
    ("in:301", "out:301", 301),
)
PAIR_FORCES = Foreign(
    """
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

extern "C" void solve(const float* positions, const float* mass, float* accelerations, int N) {
  const float softening = 0.25f;
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
""",
    ("in:231", "in:77", "out:231", 77),
)
PAIR_FORCES_METHODS = Foreign(
    """
#include <cmath>
struct Vec3 {
  float x, y, z;
  Vec3 operator-(const Vec3& o) const { return {x - o.x, y - o.y, this->z - o.z}; }
  Vec3 operator*(float s) const { return {x * s, y * s, z * s}; }
  Vec3& operator+=(const Vec3& o) { x += o.x; y += o.y; z += o.z; return *this; }
  float dot(const Vec3& o) const { return x * o.x + y * o.y + z * o.z; }
};
extern "C" void solve(const float* positions, const float* mass, float* accelerations, int N) {
  const Vec3* p = reinterpret_cast<const Vec3*>(positions);
  Vec3* a = reinterpret_cast<Vec3*>(accelerations);
  for (int i = 0; i < N; ++i) {
    Vec3 sum = {0.0f, 0.0f, 0.0f};
    for (int j = 0; j < N; ++j) {
      if (i == j) continue;
      const Vec3 r = p[j] - p[i];
      const float d2 = r.dot(r) + 0.25f;
      sum += r * (mass[j] / (d2 * std::sqrt(d2)));
    }
    a[i] = sum;
  }
}
""",
    ("in:231", "in:77", "out:231", 77),
)
COMPLEX_CHAIN = Foreign(
    """
typedef struct { double re, im; } cplx;
static inline cplx times(cplx a, cplx b) {
    cplx c;
    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}
static inline void add(cplx& to, cplx what) { to.re += what.re; to.im += what.im; }
static inline double size(const cplx& a) { return a.re * a.re + a.im * a.im; }
extern "C" void solve(const double* x, const double* w, double* y, long rows, long n) {
    const cplx* in = (const cplx*)x;
    const cplx* by = (const cplx*)w;
    for (long r = 0; r < rows; r++) {
        cplx total = {0.0, 0.0};
        for (long k = 0; k < n; k++) {
            const cplx& here = in[r * n + k];
            add(total, times(here, by[k]));
        }
        y[r] = size(times(total, cplx{0.5, -0.25})) + total.re;
    }
}
""",
    ("double-in:19x134", "double-in:134", "double-out:19", 19, 67),
)
MAX_POOL = Foreign(
    """
#include <algorithm>
#include <limits>
static float window_max(const float* plane, int H, int W, int top, int left) {
  float best = -std::numeric_limits<float>::infinity();
  for (int r = std::max(top, 0); r < std::min(top + 3, H); ++r) {
    for (int c = std::max(left, 0); c < std::min(left + 3, W); ++c) {
      if (plane[r * W + c] > best) best = plane[r * W + c];
    }
  }
  return best;
}

extern "C" void solve(const float* x, float* y, int C, int H, int W) {
  const int OH = (H - 1) / 2 + 1;
  const int OW = (W - 1) / 2 + 1;
  for (int c = 0; c < C; ++c) {
    const float* plane = x + c * H * W;
    for (int i = 0; i < OH; ++i) {
      for (int j = 0; j < OW; ++j) {
        *y++ = window_max(plane, H, W, 2 * i - 1, 2 * j - 1);
      }
    }
  }
}
""",
    ("in:3x37x311", "out:3x19x156", 3, 37, 311),
)
MEAN_POOL = Foreign(
    """
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
static float mean(const float *row, int n, int from, int width)
{
    float sum = 0.0f;
    for (int k = MAX(from, 0); k < MIN(from + width, n); k++)
        sum += row[k];
    return sum / width;
}
extern "C" void solve(const float *x, float *y, int rows, int n, int width)
{
    int m = n / 3;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < m; j++)
            y[i * m + j] = mean(x + i * n, n, 3 * j - 1, width);
}
""",
    ("in:41x333", "out:41x111", 41, 333, 5),
)

WORK_ARRAY = Foreign(
    """
#include <vector>
extern "C" void solve(const float* x, const float* y, float* z, int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; i++) w[i] = 3 * x[i];
  for (int i = 0; i < n; i++) w[i] += y[i];
  for (int i = 0; i < n; i++) z[i] = w[i] * w[i];
}
""",
    ("in:20011", "in:20011", "out:20011", 20011),
)
WORK_ARRAY_IN_ROWS = Foreign(
    """
extern "C" void solve(const float* x, float* z, int rows) {
  for (int r = 0; r < rows; ++r) {
    double t[64];
    for (int c = 0; c < 64; ++c) {
      t[c] = 2.0 * x[r * 64 + c];
    }
    for (int c = 0; c < 64; ++c) {
      z[r * 64 + c] = t[c] > 0 ? (float)t[c] : 0.5f * (float)t[c];
    }
  }
}
""",
    ("in:31x64", "out:31x64", 31),
)
MOMENTS = Foreign(
    """
extern "C" void solve(const float* x, float* mean, float* square, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    mean[r] = square[r] = 0.0f;
    for (int c = 0; c < cols; ++c) {
      mean[r] += x[r * cols + c] / cols;
      square[r] += x[r * cols + c] * x[r * cols + c] / cols;
    }
  }
}
""",
    ("in:41x203", "out:41", "out:41", 41, 203),
)
KERNELS = {name: value for name, value in dict(globals()).items() if isinstance(value, Foreign)}
