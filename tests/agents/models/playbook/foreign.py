"""Kernels in the styles that strangers write, with what is needed to call them; not made for any recipe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Foreign:
    """`arguments`: "in:SHAPE", "out:SHAPE", "inout:SHAPE", "double-in:SHAPE"… or an int; shapes are "RxC"."""

    source: str
    arguments: tuple[str | int | float, ...]


SOFTMAX_INT = Foreign(
    """
#include <cmath>
extern "C" void solve(const float* x, float* y, int M, int N) {
  for (int i = 0; i < M; i++) {
    float m = -INFINITY;
    for (int j = 0; j < N; j++) m = fmaxf(m, x[i * N + j]);
    float s = 0.0f;
    for (int j = 0; j < N; j++) s += expf(x[i * N + j] - m);
    for (int j = 0; j < N; j++) y[i * N + j] = expf(x[i * N + j] - m) / s;
  }
}
""",
    ("in:37x67", "out:37x67", 37, 67),
)
SOFTMAX_ROWS = Foreign(
    """
#include <algorithm>
#include <cmath>
#include <cstddef>
static inline float peak(const float *v, size_t n) {
    float best = v[0];
    for (size_t k = 1; k != n; k += 1) { if (v[k] > best) best = v[k]; }
    return best;
}
extern "C" void solve(const float *input, float *output, size_t rows, size_t cols)
{
    for (size_t r = 0; r != rows; ++r) {
        const float *src = input + r * cols;
        float *dst = output + r * cols;
        const float top = peak(src, cols);
        float total = 0;
        for (size_t c = 0; c < cols; c++)
        {
            dst[c] = std::exp(src[c] - top);
        }
        for (size_t c = 0; c < cols; c++) {
            total += dst[c];
        }
        for (size_t c = 0; c < cols; c++) dst[c] /= total;
    }
}
""",
    ("in:33x130", "out:33x130", 33, 130),
)
SOFTMAX_OLD_C = Foreign(
    """
#include <math.h>
extern "C" {
void solve(const double* a, double* b, int n, int d)
{
  int i, j;
  double mx, sum;
  for (i = 0; i < n; i++) {
    mx = a[i*d];
    for (j = 1; j < d; j++) if (a[i*d+j] > mx) mx = a[i*d+j];
    sum = 0.;
    for (j = 0; j < d; j++) sum += exp(a[i*d+j] - mx);
    for (j = 0; j < d; j++) b[i*d+j] = exp(a[i*d+j] - mx) / sum;
  }
}
}
""",
    ("double-in:19x41", "double-out:19x41", 19, 41),
)
LAYERNORM = Foreign(
    """
#include <cmath>
extern "C" void solve(const float* x, const float* g, const float* b, float* out, int rows, int dim) {
  for (int r = 0; r < rows; ++r) {
    const float* p = &x[(long)r * dim];
    float* q = &out[(long)r * dim];
    float mean = 0.f;
    for (int i = 0; i < dim; ++i) mean += p[i];
    mean /= dim;
    float var = 0.f;
    for (int i = 0; i < dim; ++i) { float d = p[i] - mean; var += d * d; }
    var /= dim;
    for (int i = 0; i < dim; ++i) q[i] = (p[i] - mean) / std::sqrt(var + 1e-5f) * g[i] + b[i];
  }
}
""",
    ("in:29x100", "in:100", "in:100", "out:29x100", 29, 100),
)
RMSNORM = Foreign(
    """
#include <cmath>
static void one_row(const float* row, const float* weight, float* dst, int n) {
  float ss = 0.0f;
  for (int k = 0; k < n; ++k) ss = ss + row[k] * row[k];
  const float norm = sqrtf(ss / n + 1e-6f);
  for (int k = 0; k < n; ++k) dst[k] = row[k] / norm * weight[k];
}
extern "C" void solve(const float* X, const float* W, float* Y, int B, int H) {
  for (int b = 0; b < B; b += 1) one_row(X + b * H, W, Y + b * H, H);
}
""",
    ("in:31x96", "in:96", "out:31x96", 31, 96),
)
CHAIN = Foreign(
    """
#include <cmath>
#include <cstdint>
extern "C" void solve(const float* x, const float* bias, float* tmp, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) tmp[i] = x[i] * 1.5f + bias[i];
  for (int64_t i = 0; i < n; ++i) tmp[i] = fmaxf(tmp[i], 0.0f);
  for (int64_t k = 0; k < n; ++k) {
    y[k] = tmp[k] / (1.0f + expf(-tmp[k]));
  }
}
""",
    ("in:5000", "in:5000", "out:5000", "out:5000", 5000),
)
GELU = Foreign(
    """
#include <cmath>
namespace { float gelu(float v) { return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); } }
extern "C" void solve(const float* a, float* r, unsigned long count) {
  for (unsigned long i = 0; i < count; i++) r[i] = gelu(a[i]);
}
""",
    ("in:4097", "out:4097", 4097),
)
CLAMP = Foreign(
    """
extern "C" void solve(const float* a, float* r, int n, int c) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < c; j++) {
      if (a[i*c+j] > 0.5f) {
        r[i*c+j] = 0.5f;
      } else {
        r[i*c+j] = a[i*c+j] * 2.0f;
      }
    }
}
""",
    ("in:23x57", "out:23x57", 23, 57),
)
ROW_SUM = Foreign(
    """
extern "C" void solve(const float* a, float* out, int rows, int cols) {
  for (int r = 0; r < rows; r++) {
    out[r] = 0.0f;
    for (int c = 0; c < cols; c++)
      out[r] += a[r * cols + c];
  }
}
""",
    ("in:41x203", "out:41", 41, 203),
)
COLUMN_SUM = Foreign(
    """
extern "C" void solve(const float* in, float* out, int M, int N) {
  for (int j = 0; j < N; ++j) {
    float s = 0.0f;
    for (int i = 0; i < M; ++i) s += in[i * N + j];
    out[j] = s / M;
  }
}
""",
    ("in:91x333", "out:333", 91, 333),
)
COLUMN_MAX = Foreign(
    """
#include <cfloat>
#include <algorithm>
extern "C" void solve(const double* a, double* hi, long h, long w) {
  for (long c = 0; c < w; ++c) {
    double m = a[c];
    for (long r = 1; r < h; ++r) m = std::max(m, a[r * w + c]);
    hi[c] = m;
  }
}
""",
    ("double-in:70x150", "double-out:150", 70, 150),
)
TRANSPOSE = Foreign(
    """
extern "C" void solve(const float* in, float* out, int M, int N) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      out[j * M + i] = in[i * N + j];
}
""",
    ("in:75x133", "out:133x75", 75, 133),
)
TRANSPOSE_BRACES = Foreign(
    """
#include <cstddef>
extern "C" void solve(const double *src, double *dst, size_t r, size_t c) {
  for (size_t x = 0; x < c; x++) {
    for (size_t y = 0; y < r; y++) { dst[x * r + y] = src[y * c + x]; }
  }
}
""",
    ("double-in:65x40", "double-out:40x65", 65, 40),
)
BATCHED_TRANSPOSE = Foreign(
    """
extern "C" void solve(const float* a, float* b, int B, int H, int W) {
  for (int n = 0; n < B; ++n) {
    const float* s = a + n * H * W;
    float* d = b + n * H * W;
    for (int h = 0; h <= H - 1; ++h)
      for (int w = 0; w <= W - 1; ++w)
        d[w * H + h] = s[h * W + w];
  }
}
""",
    ("in:3x5170", "out:3x5170", 3, 55, 94),
)
MATMUL = Foreign(
    """
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float acc = 0;
      for (int k = 0; k < K; k++) acc += A[i*K+k] * B[k*N+j];
      C[i*N+j] = acc;
    }
}
""",
    ("in:37x53", "in:53x141", "out:37x141", 37, 141, 53),
)
MATMUL_BIAS_DOUBLE = Foreign(
    """
extern "C" void solve(const double* left, const double* right, const double* bias, double* out, long m, long n, long k) {
  for (long r = 0; r < m; ++r) {
    for (long c = 0; c < n; ++c) {
      double total = bias[c];
      for (long t = 0; t < k; ++t) {
        total += left[r * k + t] * right[t * n + c];
      }
      out[r * n + c] = total > 0.0 ? total : 0.0;
    }
  }
}
""",
    ("double-in:22x30", "double-in:30x130", "double-in:130", "double-out:22x130", 22, 130, 30),
)
MATMUL_IN_PLACE_SUM = Foreign(
    """
extern "C" void solve(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      c[i*n+j] = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        c[i*n+j] += a[i*n+k] * b[k*n+j];
}
""",
    ("in:77x77", "in:77x77", "out:77x77", 77),
)
STENCIL = Foreign(
    """
extern "C" void solve(const float* u, float* v, int H, int W) {
  for (int i = 0; i < H * W; ++i) v[i] = u[i];
  for (int i = 1; i < H - 1; ++i)
    for (int j = 1; j < W - 1; ++j)
      v[i*W + j] = 0.25f * (u[(i-1)*W + j] + u[(i+1)*W + j] + u[i*W + j - 1] + u[i*W + j + 1]);
}
""",
    ("in:40x61", "out:40x61", 40, 61),
)
COLUMN_WALK = Foreign(
    """
extern "C" void solve(const float* a, const float* b, float* c, int M, int N) {
  for (int j = 0; j < N; j++)
    for (int i = 0; i < M; i++)
      c[i*N + j] = a[i*N + j] * 0.5f + b[j];
}
""",
    ("in:44x71", "in:71", "out:44x71", 44, 71),
)
DOT = Foreign(
    """
extern "C" void solve(const float* x, const float* y, float* out, int n) {
  float d = 0.f;
  for (int i = 0; i < n; i++) d += x[i] * y[i];
  out[0] = d;
}
""",
    ("in:10007", "in:10007", "out:1", 10007),
)
LOG_SOFTMAX = Foreign(
    """
#include <cmath>
#include <vector>
extern "C" void solve(const float* x, float* y, int rows, int n) {
  std::vector<float> scratch(n);
  for (int r = 0; r < rows; r++) {
    float mx = x[r*n];
    for (int i = 1; i < n; i++) mx = x[r*n+i] > mx ? x[r*n+i] : mx;
    double s = 0;
    for (int i = 0; i < n; i++) { scratch[i] = x[r*n+i] - mx; s += expf(scratch[i]); }
    for (int i = 0; i < n; i++) y[r*n+i] = scratch[i] - logf((float)s);
  }
}
""",
    ("in:17x90", "out:17x90", 17, 90),
)

MATMUL_MACROS = Foreign(
    """
#define A(i, j) a[(i) * lda + (j)]
#define B(i, j) b[(i) * ldb + (j)]
#define C(i, j) c[(i) * ldc + (j)]
extern "C" void solve(const float *a, const float *b, float *c, int m, int n, int k)
{
    const int lda = k, ldb = n, ldc = n;
    int i, j, p;
    for (i = 0; i < m; i++) {
        for (j = 0; j < n; j++) {
            C(i, j) = 0.0f;
            for (p = 0; p < k; p++)
                C(i, j) += A(i, p) * B(p, j);
        }
    }
}
""",
    ("in:37x53", "in:53x141", "out:37x141", 37, 141, 53),
)
COLUMN_SUM_OLD_C = Foreign(
    """
typedef float real;
extern "C" void solve(const real *x, real *s, int nrow, int ncol)
{
    int i, j;
    real sum;

    for (j = 0; j < ncol; j++) {
        sum = 0.0;
        for (i = 0; i < nrow; i++)
            sum = sum + x[i * ncol + j];
        s[j] = sum;
    }
}
""",
    ("in:91x333", "out:333", 91, 333),
)
GELU_PORT = Foreign(
    """
#include <cmath>
#define BLOCK 256
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
static inline void gelu_thread(const float* in, float* out, int n, int blockIdx, int threadIdx) {
    int idx = blockIdx * BLOCK + threadIdx;
    if (idx < n) {
        float v = in[idx];
        out[idx] = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
    }
}
extern "C" void solve(const float* in, float* out, int n) {
    int grid = CEIL_DIV(n, BLOCK);
    for (int b = 0; b < grid; ++b)
        for (int t = 0; t < BLOCK; ++t)
            gelu_thread(in, out, n, b, t);
}
""",
    ("in:4099", "out:4099", 4099),
)
JACOBI = Foreign(
    """
#define IDX(i, j) ((i) * nx + (j))
extern "C" void solve(const double* u, double* unew, int ny, int nx)
{
    for (int i = 0; i < ny; i++) {
        for (int j = 0; j < nx; j++) {
            if (i == 0 || j == 0 || i == ny - 1 || j == nx - 1) {
                unew[IDX(i, j)] = u[IDX(i, j)];
            } else {
                unew[IDX(i, j)] = 0.25 * (u[IDX(i - 1, j)] + u[IDX(i + 1, j)] + u[IDX(i, j - 1)] + u[IDX(i, j + 1)]);
            }
        }
    }
}
""",
    ("double-in:45x38", "double-out:45x38", 45, 38),
)
LOG_SUM_EXP = Foreign(
    """
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
""",
    ("in:21x150", "out:21", 21, 150),
)
BATCHED_MATVEC = Foreign(
    """
static double dot(const double* p, const double* q, long n)
{
    double acc = 0;
    for (long i = 0; i < n; ++i) acc += p[i] * q[i];
    return acc;
}
extern "C" void solve(const double* A, const double* x, double* y, long nb, long m, long n)
{
    for (long b = 0; b < nb; ++b) {
        const double* mat = A + b * m * n;
        const double* vec = x + b * n;
        double* res = y + b * m;
        for (long i = 0; i < m; ++i) {
            res[i] = dot(&mat[i * n], vec, n);
        }
    }
}
""",
    ("double-in:3x600", "double-in:3x30", "double-out:3x20", 3, 20, 30),
)

SILU_WALK = Foreign(
    """
#include <math.h>
extern "C" void solve(const float* x, float* y, long n) {
  const float* end = x + n;
  while (x != end) {
    float v = *x++;
    *y++ = v / (1.0 + exp(-v));
  }
}
""",
    ("in:5003", "out:5003", 5003),
)
SWIGLU_LAMBDA = Foreign(
    """
#include <cmath>
extern "C" void solve(const float* x, float* out, int M, int N) {
  const float shift = 0.25f;
  auto gate_of = [&](float v) { return 1.0 / (1.0 + exp(-(v + shift))); };
  for (int m = 0; m < M; m++) {
    const float* gate = &x[m * 2 * N];
    const float* up = &x[m * 2 * N + N];
    for (int n = 0; n < N; n++) out[m * N + n] = gate[n] * gate_of(gate[n]) * up[n];
  }
}
""",
    ("in:31x154", "out:31x77", 31, 77),
)
SOFTMAX_ALGORITHMS = Foreign(
    """
#include <algorithm>
#include <cmath>
extern "C" void solve(const float* x, float* y, int rows, int d) {
  for (int r = 0; r < rows; ++r) {
    const float* in = x + r * d;
    float* out = y + r * d;
    float m = *std::max_element(in, in + d);
    float sum = 0.f;
    std::transform(in, in + d, out, [m, &sum](float v) { float e = std::exp(v - m); sum += e; return e; });
    std::for_each(out, out + d, [sum](float& v) { v /= sum; });
  }
}
""",
    ("in:33x131", "out:33x131", 33, 131),
)
RMS_ACCUMULATE = Foreign(
    """
#include <cmath>
#include <numeric>
extern "C" void solve(const float* x, const float* weight, float* out, int M, int N) {
  for (int row = 0; row < M; ++row, x += N, out += N) {
    const double squares = std::accumulate(x, x + N, 0.0, [](double sum, float v) { return sum + double(v) * v; });
    const float rms = std::sqrt(squares / N + 1e-6);
    for (int i = 0; i < N; ++i) out[i] = x[i] / rms * weight[i];
  }
}
""",
    ("in:31x99", "in:99", "out:31x99", 31, 99),
)
DISTANCE_TEMPLATE = Foreign(
    """
#include <cmath>
template <typename T>
static T squared_distance(const T* p, const T* q, int dimensions) {
  T sum = T(0);
  while (dimensions-- > 0) {
    const T difference = *p++ - *q++;
    sum += difference * difference;
  }
  return sum;
}
extern "C" void solve(const float* X, const float* Y, float* distance, int M, int N, int D) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) distance[i * N + j] = std::sqrt(squared_distance(X + i * D, Y + j * D, D));
}
""",
    ("in:37x51", "in:29x51", "out:37x29", 37, 29, 51),
)
HORNER = Foreign(
    """
extern "C" void solve(const float* x, const float* c, float* y, int n, int degree) {
  for (int i = 0; i < n; ++i) {
    y[i] = c[degree];
    for (int k = degree - 1; k >= 0; --k) y[i] = y[i] * x[i] + c[k];
  }
}
""",
    ("in:3001", "in:6", "out:3001", 3001, 5),
)
ARGMAX = Foreign(
    """
extern "C" void solve(const float* x, float* where, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    int best = 0;
    for (int c = 1; c < cols; ++c)
      if (x[r * cols + c] > x[r * cols + best]) best = c;
    where[r] = best;
  }
}
""",
    ("in:67x301", "out:67", 67, 301),
)
ARGMIN_VALUE = Foreign(
    """
#include <cfloat>
extern "C" void solve(const double* x, double* where, double* least, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const double* row = x + (long)r * cols;
    double low = DBL_MAX; long at = -1;
    for (long c = 0; c < cols; ++c) {
      if (row[c] < low) { low = row[c]; at = c; }
    }
    where[r] = at;
    least[r] = low;
  }
}
""",
    ("double-in:41x77", "double-out:41", "double-out:41", 41, 77),
)
ARGMAX_ELEMENT = Foreign(
    """
#include <algorithm>
extern "C" void solve(const float* x, float* where, int rows, int cols) {
  for (int r = 0; r < rows; ++r) {
    const float* row = x + r * cols;
    where[r] = std::max_element(row, row + cols) - row;
  }
}
""",
    ("in:67x301", "out:67", 67, 301),
)
BLACK_SCHOLES = Foreign(
    """
#include <cmath>
double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2.0)); }
extern "C" void solve(const float* a, const float* b, float* call, int n) {
  for (int i = 0; i < n; i++) {
    double S = exp(0.2 * a[i]), K = exp(0.1 * b[i]), T = 0.5 + fabs(a[i]);
    double d1 = (log(S / K) + 0.05 * T) / (0.3 * sqrt(T));
    call[i] = S * normal_cdf(d1) - K * exp(-0.02 * T) * normal_cdf(d1 - 0.3 * sqrt(T));
  }
}
""",
    ("in:2003", "in:2003", "out:2003", 2003),
)
GELU_BIAS = Foreign(
    """
#include <cmath>
template <typename T> inline T gelu(T x) { return T(0.5) * x * (T(1) + std::erf(x / std::sqrt(T(2)))); }
extern "C" void solve(const float* x, const float* bias, float* y, int rows, int cols) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) y[r * cols + c] = gelu<float>(x[r * cols + c] + bias[c]) + 0.01 * std::pow(bias[c], 3);
}
""",
    ("in:43x91", "in:91", "out:43x91", 43, 91),
)
EMBEDDING_BAG = Foreign(
    """
extern "C" void solve(const float* table, const int* ids, float* out, int n, int bag, int dim) {
  for (int i = 0; i < n; i++)
    for (int d = 0; d < dim; d++) {
      float s = 0;
      for (int k = 0; k < bag; k++) s += table[ids[i * bag + k] * dim + d];
      out[i * dim + d] = s / bag;
    }
}
""",
    ("in:64x75", "index:67x9", "out:67x75", 67, 9, 75),
)
CROSS_ENTROPY = Foreign(
    """
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
""",
    ("in:301x70", "index:301", "out:301", 301, 70),
)
CAUSAL_SOFTMAX = Foreign(
    """
#include <cmath>
extern "C" void solve(const float* s, float* p, int n) {
  for (int i = 0; i < n; i++) {
    float m = -1e30f;
    for (int j = 0; j <= i; j++) m = std::fmax(m, s[i*n+j]);
    float z = 0;
    for (int j = 0; j <= i; j++) { p[i*n+j] = std::exp(s[i*n+j] - m); z += p[i*n+j]; }
    for (int j = 0; j <= i; j++) p[i*n+j] /= z;
    for (int j = i + 1; j < n; j++) p[i*n+j] = 0;
  }
}
""",
    ("in:301x301", "out:301x301", 301),
)
N_BODY = Foreign(
    """
#include <math.h>
extern "C" void solve(const float *x, const float *m, float *ax, float *ay, int n)
{
    for (int i = 0; i < n; i++) {
        ax[i] = ay[i] = 0.0f;
        for (int j = 0; j < n; j++) {
            float dx = x[j] - x[i];
            float inv = 1.0f / sqrtf(dx * dx + 1e-1f);
            ax[i] += m[j] * inv * dx;
            ay[i] += m[j] * inv * inv;
        }
    }
}
""",
    ("in:203", "in:203", "out:203", "out:203", 203),
)
ROW_SCAN = Foreign(
    """
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  for (int r = 0; r < rows; r++) {
    double acc = 0;
    for (int c = 0; c < cols; c++) { acc += x[r*cols+c]; y[r*cols+c] = acc; }
  }
}
""",
    ("in:151x131", "out:151x131", 151, 131),
)

PREFIX_SUM = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = x[0];
  for (int i = 1; i < n; i++) y[i] = y[i-1] + x[i];
}
""",
    ("in:900", "out:900", 900),
)
RUNNING_TOTAL = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  float t = 0;
  for (int i = 0; i < n; i++) { t += x[i]; y[i] = t; }
}
""",
    ("in:900", "out:900", 900),
)
IN_PLACE_STENCIL = Foreign(
    """
extern "C" void solve(float* u, int H, int W) {
  for (int i = 1; i < H - 1; ++i)
    for (int j = 1; j < W - 1; ++j)
      u[i*W + j] = 0.25f * (u[(i-1)*W + j] + u[(i+1)*W + j] + u[i*W + j - 1] + u[i*W + j + 1]);
}
""",
    ("inout:30x30", 30, 30),
)
HISTOGRAM = Foreign(
    """
extern "C" void solve(const int* bin, float* count, int n) {
  for (int i = 0; i < n; i++) count[bin[i]] += 1.0f;
}
""",
    ("index:500", "inout:64", 500),
)
RECURRENCE = Foreign(
    """
extern "C" void solve(const float* x, float* y, int T, int D) {
  for (int t = 1; t < T; t++)
    for (int d = 0; d < D; d++)
      y[t*D + d] = 0.5f * y[(t-1)*D + d] + x[t*D + d];
}
""",
    ("in:40x50", "inout:40x50", 40, 50),
)
OVERLAP_ADD = Foreign(
    """
extern "C" void solve(const float* x, float* y, int frames, int hop, int size) {
  for (int f = 0; f < frames; f++)
    for (int k = 0; k < size; k++)
      y[f * hop + k] += x[f * size + k];
}
""",
    ("in:20x16", "inout:400", 20, 8, 16),
)
POINTER_WALK = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  float* w = y;
  for (int i = 0; i < n; i++) *w++ = x[i] * 2.0f;
}
""",
    ("in:300", "out:300", 300),
)
EXCLUSIVE_SCAN = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  float t = 1;
  for (int i = 0; i < n; i++) { y[i] = t; t += x[i]; }
}
""",
    ("in:900", "out:900", 900),
)
COUNTS = Foreign(
    """
#include <cstring>
extern "C" void solve(const int* values, int* counts, float* out, int n, int bins) {
  memset(counts, 0, bins * sizeof(int));
  for (const int* p = values; p != values + n; ++p) counts[*p]++;
  for (int b = 0; b < bins; ++b) out[b] = counts[b];
}
""",
    ("index:60001", "index:64", "out:64", 60001, 64),
)
SEGMENT_ADD = Foreign(
    """
#include <algorithm>
extern "C" void solve(const float* values, const int* segment, float* sums, int N, int D, int S) {
  std::fill(sums, sums + static_cast<long>(S) * D, 0.0f);
  for (long n = 0; n < N; ++n) {
    float* target = sums + segment[n] * D;
    for (long d = 0; d < D; ++d) target[d] += values[n * D + d];
  }
}
""",
    ("in:3001x17", "index:3001", "out:64x17", 3001, 17, 64),
)
EARLY_EXIT = Foreign(
    """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; i++) { if (x[i] > 3.9f) break; y[i] = x[i]; }
}
""",
    ("in:300", "inout:300", 300),
)

DEPENDENT = {
    "PREFIX_SUM": PREFIX_SUM,
    "RUNNING_TOTAL": RUNNING_TOTAL,
    "IN_PLACE_STENCIL": IN_PLACE_STENCIL,
    "HISTOGRAM": HISTOGRAM,
    "RECURRENCE": RECURRENCE,
    "OVERLAP_ADD": OVERLAP_ADD,
    "EXCLUSIVE_SCAN": EXCLUSIVE_SCAN,
    "EARLY_EXIT": EARLY_EXIT,
}
SCATTERED = {"COUNTS": COUNTS, "SEGMENT_ADD": SEGMENT_ADD}
"""Wrong as a plain parallel loop, right with a copy for each thread."""
INDEPENDENT = {
    name: value for name, value in dict(globals()).items() if isinstance(value, Foreign) and name not in {**DEPENDENT, **SCATTERED}
}
