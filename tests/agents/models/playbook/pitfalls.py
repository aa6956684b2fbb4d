"""Kernels that look like what the recipes rewrite and are not: whatever is edited, the result has to stay."""

from __future__ import annotations

from foreign import Foreign

HEAD = """#include <cmath>
#include <algorithm>
#include <numeric>
#include <vector>
#include <cstdint>
"""
PITFALLS = {
    # a negative index fails an unsigned comparison
    "UNSIGNED_IDIOM": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, const float* w, float* y, int H, int W) {
  for (int i = 0; i < H; ++i)
    for (int j = 0; j < W; ++j) {
      float s = 0.0f;
      for (int u = 0; u < 3; ++u)
        for (int v = 0; v < 3; ++v) {
          int yy = i + u - 1, xx = j + v - 1;
          if ((unsigned)yy < (unsigned)H && (unsigned)xx < (unsigned)W) s += x[yy * W + xx] * w[u * 3 + v];
        }
      y[i * W + j] = s;
    }
}
""",
        (
            "in:131x157",
            "in:9",
            "out:131x157",
            131,
            157,
        ),
    ),
    # the same with a literal
    "UNSIGNED_LITERAL": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int W) {
  for (int j = 0; j < W; ++j) {
    if (j - 1u < W - 2u) y[j] = x[j - 1] + x[j + 1];
    else y[j] = x[j];
  }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # the index wraps
    "CAST_WRAP_STORE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[(unsigned char)i] = x[i];
}
""",
        (
            "in:40011",
            "out:256",
            40011,
        ),
    ),
    # the index wraps in a variable
    "NARROW_LOCAL": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { const uint8_t p = i; y[p] = x[i] * 2.0f; }
}
""",
        (
            "in:40011",
            "out:256",
            40011,
        ),
    ),
    # several iterations store to one element
    "FLOAT_SCALE_STORE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  const float s = 0.25f;
  for (int i = 0; i < n; ++i) y[(int)(s * i)] = x[i];
}
""",
        (
            "in:40012",
            "out:10003",
            40012,
        ),
    ),
    # an outer loop comes round and reads
    "PRIVATE_CARRIED": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, float* z, int m, int n) {
  float last = 0.0f;
  for (int t = 0; t < m; ++t) {
    z[t] = last;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 64; ++j) { last = x[i * 64 + j] + t; y[i * 64 + j] = last * 2.0f; }
  }
}
""",
        (
            "in:5000x64",
            "out:5000x64",
            "out:3",
            3,
            5000,
        ),
    ),
    # read on the right of the next assignment
    "PRIVATE_LATER_SELF": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, float* z, int n) {
  float t = 1.0f;
  for (int i = 0; i < n; ++i) { t = x[i] * 3.0f; y[i] = t + 1.0f; }
  t = t * 2.0f;
  z[0] = t;
}
""",
        (
            "in:40011",
            "out:40011",
            "out:1",
            40011,
        ),
    ),
    # kept unless a condition holds
    "PRIVATE_LATER_IF": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, float* z, int n) {
  float t = 1.0f;
  for (int i = 0; i < n; ++i) { t = x[i] * 3.0f; y[i] = t + 1.0f; }
  if (n < 5) t = 0.0f;
  z[0] = t;
}
""",
        (
            "in:40011",
            "out:40011",
            "out:1",
            40011,
        ),
    ),
    # a helper's pointers overlap
    "HELPER_ALIAS": Foreign(
        HEAD
        + """
static void blend(float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) a[i] = 0.5f * b[i] + 1.0f;
}
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = x[0];
  blend(y + 1, y, n - 1);
}
""",
        (
            "in:40011",
            "out:40011",
            40011,
        ),
    ),
    # the same in rows
    "HELPER_ALIAS2": Foreign(
        HEAD
        + """
static void rows(float* a, const float* b, int m, int n) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) a[i * n + j] = 0.5f * b[i * n + j] + 1.0f;
}
extern "C" void solve(const float* x, float* y, int m, int n) {
  for (int j = 0; j < n; ++j) y[j] = x[j];
  rows(y + n, y, m - 1, n);
}
""",
        (
            "in:301x99",
            "out:301x99",
            301,
            99,
        ),
    ),
    # the same through two helpers
    "HELPER_ALIAS3": Foreign(
        HEAD
        + """
static void step(float* a, const float* b, int m, int n) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) a[i * n + j] += 0.5f * b[i * n + j];
}
static void twice(float* u, float* v, int m, int n) { step(u, v, m, n); step(u, v, m, n); }
extern "C" void solve(const float* x, float* y, int m, int n) {
  for (int j = 0; j < m * n; ++j) y[j] = x[j];
  twice(y + n, y, m - 1, n);
}
""",
        (
            "in:301x99",
            "out:301x99",
            301,
            99,
        ),
    ),
    # compared as a double, kept as a float
    "ARGMAX_DOUBLE_CMP": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* out, int n) {
  float best = -1e30f; int at = 0;
  for (int i = 0; i < n; ++i) { if (x[i] * 0.1 > best) { best = x[i] * 0.1; at = i; } }
  out[0] = best; out[1] = at;
}
""",
        (
            "in:20011",
            "out:2",
            20011,
        ),
    ),
    # the same without a literal
    "ARGMAX_DOUBLES": Foreign(
        HEAD
        + """
extern "C" void solve(const double* x, float* out, int n) {
  float best = -1e30f; int at = 0;
  for (int i = 0; i < n; ++i) if (x[i] > best) { best = x[i]; at = i; }
  out[0] = best; out[1] = at;
}
""",
        (
            "double-in:20011",
            "out:2",
            20011,
        ),
    ),
    # one element only, `<=`
    "SCAN_INCLUSIVE_ONE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = 3.0f;
  for (int i = 1; i <= n; i++) y[i] = y[i - 1] + x[i - 1];
}
""",
        (
            "in:1",
            "out:2",
            1,
        ),
    ),
    # the bins under another name
    "HIST_ALIAS": Foreign(
        HEAD
        + """
extern "C" void solve(const int* idx, float* hist, int n, int b) {
  float* h = hist;
  for (int i = 0; i < b; ++i) hist[i] = 0.0f;
  for (int i = 0; i < n; ++i) h[idx[i]] += 1.0f;
}
""",
        (
            "index:400110",
            "out:64",
            400110,
            64,
        ),
    ),
    # a quotient cut to a whole number
    "HIST_BIN": Foreign(
        HEAD
        + """
extern "C" void solve(const int* q, float* hist, int n, int b) {
  const float width = 0.3f;
  for (int i = 0; i < b; ++i) hist[i] = 0.0f;
  for (int i = 0; i < n; ++i) { float v = q[i] * 0.3f; int c = (int)(v / width); hist[c] += 1.0f; }
}
""",
        (
            "index:40011",
            "out:70",
            40011,
            70,
        ),
    ),
    # the same by floorf
    "QUANT7": Foreign(
        HEAD
        + """
extern "C" void solve(const int* q, const float* s, float* y, int n) {
  const float w = 0.7f;
  for (int i = 0; i < n; ++i) y[i] = floorf((q[i] * 0.7f) / w);
}
""",
        (
            "index:40011",
            "in:1",
            "out:40011",
            40011,
        ),
    ),
    # a quotient compared
    "RECIPROCAL_CMP": Foreign(
        HEAD
        + """
extern "C" void solve(const int* q, float* y, int n) {
  const float w = 0.7f;
  for (int i = 0; i < n; ++i) y[i] = (q[i] * 0.7f) / w >= (float)q[i] ? 1.0f : 0.0f;
}
""",
        (
            "index:40011",
            "out:40011",
            40011,
        ),
    ),
    # an else behind the loop
    "DANGLING_ELSE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int a, int b) {
  if (a)
    for (int i = 0; i < n; ++i) { if (b) y[i] = x[i] * 2.0f; }
  else
    for (int i = 0; i < n; ++i) y[i] = -x[i];
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            0,
            1,
        ),
    ),
    # a literal that no float holds
    "EPS_UNDERFLOW": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { float z = x[i] > 0.0f ? x[i] : 0.0f; y[i] = std::log(z + 1e-60); }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a large angle
    "PHASE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* f, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = std::sin(6.283185307179586 * f[0] * i);
}
""",
        (
            "in:1",
            "out:20011",
            20011,
        ),
    ),
    # captured before it changes
    "LAMBDA_VALUE_CAPTURE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  float a = 2.0f;
  auto f = [a](float v) { return a * v; };
  a = x[0] + 10.0f;
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + a;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # the same by [=]
    "LAMBDA_COPY_CAPTURE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  float a = 2.0f;
  auto f = [=](float v) { return a * v; };
  a += x[0] + 10.0f;
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + a;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a parameter cuts off
    "LAMBDA_INT_PARAM": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  auto q = [](int v) { return v * 0.5f; };
  for (int i = 0; i < n; ++i) y[i] = q(x[i] * 3.0f);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a result cuts off
    "LAMBDA_INT_RESULT": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  auto q = [](float v) -> int { return v * 3.0f; };
  for (int i = 0; i < n; ++i) y[i] = q(x[i]) * 0.5f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # the same for an algorithm
    "TRANSFORM_INT_RESULT": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::transform(x, x + n, y, [](float v) -> int { return v * 3.0f; });
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a lambda with a copy as state
    "TRANSFORM_MUTABLE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, float* z, int n) {
  float s = 1.0f;
  std::transform(x, x + n, y, [s](float v) mutable { s += v; return s; });
  z[0] = s;
}
""",
        (
            "in:2011",
            "out:2011",
            "out:1",
            2011,
        ),
    ),
    # a parameter called like the output
    "TRANSFORM_NAME_CLASH": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::transform(x, x + n, y, [](float y) { return y * 2.0f; });
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # like the other input
    "TRANSFORM_TWO_CLASH": Foreign(
        HEAD
        + """
extern "C" void solve(const float* a, const float* b, float* y, int n) {
  std::transform(a, a + n, b, y, [](float b, float c) { return b * 2.0f + c; });
}
""",
        (
            "in:20011",
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # an integer sum of floats
    "ACCUMULATE_INT_INIT": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int m, int n) {
  for (int i = 0; i < m; ++i) y[i] = std::accumulate(x + i * n, x + i * n + n, 0);
}
""",
        (
            "in:301x99",
            "out:301",
            301,
            99,
        ),
    ),
    # the same, running
    "INT_SCAN_CUT": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  int s = 0;
  for (int i = 0; i < n; ++i) { s += x[i] * 2.5f; y[i] = s; }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # the count moves a pointer
    "COUNTDOWN_STEP": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  const float* p = x; float s = 0.0f; float* q = y;
  for (; n > 0; n--, p += n) { *q++ = *p * 2.0f; }
}
""",
        (
            "in:201x102",
            "out:201",
            201,
        ),
    ),
    # a step made in the body
    "WHILE_STEP_LOCAL": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  int i = 0;
  while (i < n) { int s = x[i] > 0.0f ? 1 : 2; y[i] = x[i]; i += s; }
  for (int j = 0; j < n; ++j) y[j] = y[j] * 2.0f;
}
""",
        (
            "in:2001",
            "inout:2003",
            2001,
        ),
    ),
    # rows that may be empty
    "WALK_BAND": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int m) {
  const float* p = x;
  for (int i = 0; i < n; ++i) { float s = 0.0f; for (int j = i; j < m; ++j) s += *p++; y[i] = s + *p; }
}
""",
        (
            "in:400",
            "out:17",
            17,
            5,
        ),
    ),
    # -1 and an unsigned number
    "MIXED_TERNARY": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  const unsigned big = n;
  for (int i = 0; i < n; ++i) { if (x[i] > 0.0f) y[i] = -1; else y[i] = big; }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # an octal literal
    "OCTAL": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i + 010] * 2.0f;
}
""",
        (
            "in:20019",
            "out:20011",
            20011,
        ),
    ),
    # the counter is read afterwards
    "INTERIOR_LAST": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  int i;
  for (i = 0; i < n; ++i) { if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1]; else y[i] = x[i]; }
  y[0] = i;
}
""",
        (
            "in:1",
            "out:1",
            1,
        ),
    ),
    # a pointer that moves now and then
    "END_ALIAS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* p, float* y, int n) {
  const float* end = p + n; int k = 0;
  while (p < end) { if (k % 3 != 1) { y[k] = *p++ * 2.0f; } else { y[k] = 0.0f; } k++; }
  for (int i = 0; i < n; ++i) y[i] = y[i] + 1.0f;
}
""",
        (
            "in:2001",
            "inout:3003",
            2001,
        ),
    ),
    # an element that a condition keeps away from
    "GUARDED_HOIST": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int far) {
  for (int i = 0; i < n; ++i) { if (far < n) y[i] = sqrtf(x[far] * x[far]); else y[i] = 1.0f; }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            2000000000,
        ),
    ),
    # the same, stored to
    "GUARDED_SUM": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int far) {
  for (int i = 0; i < n; ++i) { if (far < n) y[far] += x[i]; }
}
""",
        (
            "in:20011",
            "inout:20011",
            20011,
            2000000000,
        ),
    ),
    # a window at borders reads what earlier iterations wrote
    "WINDOW_OF_RESULTS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int i = 0; i < n; ++i) {
    float s = x[i];
    for (int j = std::max(0, i - h); j < std::min(i, n); ++j) s += 0.05f * y[j];
    y[i] = s;
  }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            7,
        ),
    ),
    # a window at borders is written to by its neighbours too
    "WINDOW_WRITES": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  for (int i = 0; i < n; ++i)
    for (int j = std::max(0, i - h); j < std::min(i + h, n); ++j) y[j] = y[j] * 0.5f + x[i];
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            5,
        ),
    ),
    # scratch that a window fills only where it is not empty
    "WINDOW_MAY_BE_EMPTY": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h) {
  float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 0; i < n; ++i) {
    for (int j = std::max(i % 5 - 3, 0); j < std::min(i % 7, 4); ++j) t[j] = x[i];
    for (int j = std::max(0, i % 2); j < std::min(1, h); ++j) t[0] = x[i];
    y[i] = t[0] + t[1] + t[2] + t[3];
  }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            3,
        ),
    ),
    # two views of one buffer
    "VIEW_IN_PLACE": Foreign(
        HEAD
        + """
struct View {
  float* data;
  int ld;
  float& operator()(int i, int j) const { return data[i * ld + j]; }
};

static void smooth(const View& a, const View& b, int rows, int cols) {
  for (int i = 1; i < rows; ++i)
    for (int j = 0; j < cols; ++j) b(i, j) = 0.5f * a(i - 1, j) + b(i, j);
}
extern "C" void solve(float* y, int rows, int cols) {
  const View v{y, cols};
  smooth(v, View{y, cols}, rows, cols);
}
""",
        (
            "inout:311x157",
            311,
            157,
        ),
    ),
    # a view that its function moves on
    "VIEW_CHANGES": Foreign(
        HEAD
        + """
struct Span { const float* data; int left; float first() const { return data[0]; } };
static float total(Span s) {
  float sum = 0.0f;
  while (s.left > 0) { sum += s.first(); ++s.data; --s.left; }
  return sum;
}
extern "C" void solve(const float* x, float* y, int n, int m) {
  for (int i = 0; i < n; ++i) y[i] = total(Span{x + i * m, m});
}
""",
        (
            "in:301x17",
            "out:301",
            301,
            17,
        ),
    ),
    # an argument that counts on is used twice by the method
    "VIEW_COUNTS": Foreign(
        HEAD
        + """
struct Pair { const float* data; int n; float both(int i) const { return data[i] + data[n - 1 - i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const Pair p{x, n};
  int k = 0;
  for (int i = 0; i < n; ++i) y[i] = p.both(k++);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a member's new name is taken
    "VIEW_NAMES": Foreign(
        HEAD
        + """
struct View {
  float* data;
  int ld;
  float& operator()(int i, int j) const { return data[i * ld + j]; }
};

static void fill(const View& a, float a_ld, int rows, int cols) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) a(i, j) = a_ld + (float)(i + j);
}
extern "C" void solve(float* y, int rows, int cols) { fill(View{y, cols}, 0.25f, rows, cols); }
""",
        (
            "out:311x157",
            311,
            157,
        ),
    ),
    # a method that rounds its argument, and one that rounds what it returns
    "VIEW_ROUNDS": Foreign(
        HEAD
        + """
struct Table { const float* data; int n; float at(int i) const { return data[i % n]; } int whole(int i) const { return data[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const Table t{x, n};
  for (int i = 0; i < n; ++i) y[i] = t.at(0.7f * i) + 10.0f * t.whole(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a function of the file's own with a library's name
    "OWN_NORM": Foreign(
        HEAD
        + """
static float norm(float* p, float x) { p[0] += x; return p[0]; }
extern "C" void solve(const float* x, float* y, float* last, int n) {
  last[0] = 0.0f;
  for (int i = 0; i < n; ++i) y[i] = norm(last, x[i]);
}
""",
        (
            "in:20011",
            "out:20011",
            "out:1",
            20011,
        ),
    ),
    # complex numbers: products of two, with a real one, in place, with a function between
    "COMPLEX": Foreign(
        HEAD
        + """
#include <complex>
typedef std::complex<float> C;
static C twist(C a) { return a * C(0.0f, 1.0f); }
extern "C" void solve(const float* x, const float* w, float* y, int n) {
  const C* a = reinterpret_cast<const C*>(x);
  const std::complex<float>* b = reinterpret_cast<const std::complex<float>*>(w);
  C* out = reinterpret_cast<C*>(y);
  C sum(0.0f, 0.0f);
  for (int i = 0; i < n; ++i) {
    const C one = a[i] * b[i] + 2.0f * a[i] * std::conj(b[n - 1 - i]);
    const auto two = -(one * *b) * twist(one + a[i]);
    sum += one * 0.001f;
    out[i] = two / (1.0f + std::norm(two)) * (b[i] * sum);
    out[i] *= one;
  }
}
""",
        (
            "in:2002",
            "in:2002",
            "out:2002",
            1001,
        ),
    ),
    # two structs of one name in two namespaces
    "TWO_NAMESPACES": Foreign(
        HEAD
        + """
namespace a { struct View { const float* d; int n; float at(int i) const { return d[i]; } }; }
namespace b { struct View { const float* d; int n; float at(int i) const { return 2.0f * d[i]; } };
static float two(const View& v, int i) { return v.at(i); } }
namespace a { static float one(const View& v, int i) { return v.at(i); } }
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = a::one(a::View{x, n}, i) + b::two(b::View{x, n}, i);
   }
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a struct of the function's own hides another
    "LOCAL_STRUCT_SHADOWS": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float at(int i) const { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  struct View { const float* d; int n; float at(int i) const { return 3.0f * d[i]; } };
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v.at(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # one operator for what is const and one for what is not
    "OVERLOADS_SPACED": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float operator ()(int i) { return d[i]; } float operator ()(int i) const { return -d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method with int given what is unsigned
    "UNSIGNED_ARG": Foreign(
        HEAD
        + """
#include <cstddef>
struct View { const float* d; int n; float at(int i) const { return i < 0 ? 0.0f : d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (unsigned i = 0; i < (unsigned)n; ++i) y[i] = v.at(i - 1u) + v.at(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method with size_t given a negative int
    "SIZE_T_ARG": Foreign(
        HEAD
        + """
#include <cstddef>
struct View { const float* d; int n; float at(size_t i) const { return d[i % n]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v.at(i - 5);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method that computes in long what it is given in int
    "LONG_ARG_WIDE": Foreign(
        HEAD
        + """
struct View { const float* d; int ld; float at(long i, long j) const { return d[i * ld / 65536 + j]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, 65536};
  for (int i = 0; i < n / 2; ++i) y[i] = v.at(i * 2, 1);
  for (int i = n / 2; i < n; ++i) y[i] = 0.0f;
}
""",
        (
            "in:80011",
            "out:80011",
            80011,
        ),
    ),
    # a method with int given more than an int holds
    "LONG_TRUNCATES": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float at(int i) const { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (long i = 0; i < n; ++i) y[i] = v.at(i + (1L << 32));
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method with int given a member that is float
    "FIELD_ARG_FLOAT": Foreign(
        HEAD
        + """
struct P { float x; int k; };
struct View { const float* d; int n; float scaled(int i) const { return d[0] * i; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) { P p; p.x = x[i]; p.k = i; y[i] = v.scaled(p.x) + v.scaled(p.k); }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method with auto that returns a sum
    "AUTO_SUM": Foreign(
        HEAD
        + """
struct View { const float* d; int n; auto pair(int i) const { return d[i] + d[n - 1 - i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = 2.0f * v.pair(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method that says behind an arrow what it returns
    "TRAILING_INT": Foreign(
        HEAD
        + """
struct View { const float* d; int n; auto whole(int i) const -> int { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v.whole(i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method with decltype(auto)
    "DECLTYPE_AUTO": Foreign(
        HEAD
        + """
struct View { const float* d; int n; decltype(auto) at(int i) const { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  for (int i = 0; i < n; ++i) y[i] = v.at(i) * 2.0f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method that returns one of two elements, not in parentheses
    "REFERENCE_OF_CHOICE": Foreign(
        HEAD
        + """
struct View { const float* d; const float* e; int n; const float& at(int i) const { return i & 1 ? d[i] : e[n - 1 - i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, x, n};
  for (int i = 0; i < n; ++i) y[i] = 2.0f * v.at(i) + 1.0f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a method that another struct overrides
    "VIRTUAL_METHOD": Foreign(
        HEAD
        + """
struct View { const float* d; int n; virtual float at(int i) const { return d[i]; } };
struct Twice : View { Twice(const float* x, int k) { d = x; n = k; } float at(int i) const override { return 2.0f * d[i]; } };
static void run(const View& v, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = v.at(i); }
extern "C" void solve(const float* x, float* y, int n) { run(Twice(x, n), y, n); }
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a view made of bare braces where a function is called
    "BARE_BRACES": Foreign(
        HEAD
        + """
struct View { const float* d; int ld; float operator()(int i, int j) const { return d[i * ld + j]; } };
static void run(const View& v, float* y, int rows, int cols) {
  for (int i = 0; i < rows; ++i) for (int j = 0; j < cols; ++j) y[i * cols + j] = v(i, j) * 2.0f;
}
extern "C" void solve(const float* x, float* y, int rows, int cols) { run({x, cols}, y, rows, cols); }
""",
        (
            "in:311x157",
            "out:311x157",
            311,
            157,
        ),
    ),
    # a view of a part of a view
    "VIEW_OF_VIEW": Foreign(
        HEAD
        + """
struct View { const float* d; int ld; int n; float operator()(int i, int j) const { return d[i * ld + j]; } };
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  const View all{x, cols, rows};
  for (int i = 0; i < rows; ++i) {
    const View row{all.d + i * all.ld, all.ld, 1};
    for (int j = 0; j < cols; ++j) y[i * cols + j] = row(0, j) + all(i, 0);
  }
}
""",
        (
            "in:311x157",
            "out:311x157",
            311,
            157,
        ),
    ),
    # a view of a part of a view, made where a function is called
    "VIEW_OF_VIEW_ARG": Foreign(
        HEAD
        + """
struct View { const float* d; int ld; float operator()(int i, int j) const { return d[i * ld + j]; } };
static float line(const View& v, int cols) { float s = 0.0f; for (int j = 0; j < cols; ++j) s += v(0, j); return s; }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  const View all{x, cols};
  for (int i = 0; i < rows; ++i) y[i] = line(View{all.d + i * all.ld, all.ld}, cols);
}
""",
        (
            "in:311x157",
            "out:311",
            311,
            157,
        ),
    ),
    # a view, an element of it and bare braces in one call
    "VIEW_OF_ELEMENTS": Foreign(
        HEAD
        + """
struct View { const float* d; int ld; float at(int i) const { return d[i * ld]; } };
static float line(View v, float s, int n) { for (int j = 0; j < n; ++j) s += v.at(j); return s; }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  const View all{x, cols};
  for (int i = 0; i < rows; ++i) y[i] = line(all, all.at(i), rows) + line({x, 1}, all.d[i], cols);
}
""",
        (
            "in:311x157",
            "out:311",
            311,
            157,
        ),
    ),
    # a pointer to a view
    "POINTER_TO_VIEW": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float at(int i) const { return d[i]; } };
static float get(const View* p, int i) { return p->at(i); }
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, n};
  const View* p = &v;
  for (int i = 0; i < n; ++i) y[i] = p->at(i) + get(&v, i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # an array of views with an operator []
    "ARRAY_OF_VIEWS": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float operator[](int i) const { return d[i]; } float operator()(int i) const { return -d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v[2] = {{x, n}, {x + 1, n}};
  for (int i = 0; i + 1 < n; ++i) y[i] = v[0][i] + v[1][i] * 2.0f + v[i & 1](i);
  y[n - 1] = v[0][n - 1];
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a lambda's parameter named like a view outside
    "LAMBDA_PARAM_SHADOWS": Foreign(
        HEAD
        + """
struct One { const float* d; int n; float operator()(int i) const { return d[i]; } };
struct Two { const float* d; int n; float operator()(int i) const { return 2.0f * d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const One v{x, n};
  const Two w{x, n};
  auto get = [](const Two& v, int i) { float s = v(i); s += 1.0f; return s; };
  for (int i = 0; i < n; ++i) y[i] = v(i) + get(w, i);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # the variable of a loop over a range named like a view outside
    "RANGE_FOR_SHADOWS": Foreign(
        HEAD
        + """
struct One { const float* d; int n; float operator()(int i) const { return d[i]; } };
struct Two { const float* d; int n; float operator()(int i) const { return 2.0f * d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const One v{x, n};
  const Two list[2] = {{x, n}, {x, n}};
  for (int i = 0; i < n; ++i) { float s = v(i); for (const auto& v : list) s += v(i); y[i] = s; }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # two views whose members would get one name
    "NAMES_MEET": Foreign(
        HEAD
        + """
struct A { const float* ld; int in_ld; float at(int i) const { return ld[i]; } };
struct B { const float* x; int ld; float at(int i) const { return x[i % ld]; } };
extern "C" void solve(const float* x, float* y, int n) {
  const A w{x, 2};
  const B w_in{x, 7};
  for (int i = 0; i < n; ++i) y[i] = w.at(i) * w.in_ld + w_in.at(i) + w_in.ld;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a lambda with a library's name that keeps a sum
    "LAMBDA_NAMED_PURE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  float acc = 0.0f;
  auto norm = [&](float v) { acc = acc * 0.5f + v; return acc; };
  for (int i = 0; i < n; ++i) y[i] = norm(x[i]);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a lambda named exp
    "LAMBDA_NAMED_EXP": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  auto exp = [&](float v) { float s = v; s += 1.0f; return s * v; };
  for (int i = 0; i < n; ++i) y[i] = exp(x[i]);
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # overloads with a library's name, one of which writes
    "OVERLOADS_NAMED_NORM": Foreign(
        HEAD
        + """
static float norm(float* p, float x) { p[0] = p[0] * 0.5f + x; return p[0]; }
static float norm(float x) { return x * x; }
extern "C" void solve(const float* x, float* y, float* last, int n) {
  last[0] = 0.0f;
  for (int i = 0; i < n; ++i) y[i] = norm(last, x[i]) + norm(x[i]);
}
""",
        (
            "in:20011",
            "out:20011",
            "out:1",
            20011,
        ),
    ),
    # an object with a library's name that writes when called
    "FUNCTOR_NAMED_REAL": Foreign(
        HEAD
        + """
struct Acc { float* s; float operator()(float x) const { s[0] = s[0] * 0.5f + x; return s[0]; } };
extern "C" void solve(const float* x, float* y, float* last, int n) {
  last[0] = 0.0f;
  const Acc real{last};
  for (int i = 0; i < n; ++i) y[i] = real(x[i]);
}
""",
        (
            "in:20011",
            "out:20011",
            "out:1",
            20011,
        ),
    ),
    # a pointer to a function with a library's name
    "POINTER_NAMED_ROUND": Foreign(
        HEAD
        + """
static float carry(float* p, float x) { p[0] = p[0] * 0.5f + x; return p[0]; }
static void run(float (*round)(float*, float), const float* x, float* y, float* last, int n) {
   for (int i = 0; i < n; ++i) y[i] = round(last, x[i]); }
extern "C" void solve(const float* x, float* y, float* last, int n) { last[0] = 0.0f; run(carry, x, y, last, n); }
""",
        (
            "in:20011",
            "out:20011",
            "out:1",
            20011,
        ),
    ),
    # a complex of the file's own
    "OWN_COMPLEX": Foreign(
        HEAD
        + """
template <class T> struct complex { T re, im; };
template <class T> static complex<T> operator*(complex<T> a, complex<T> b) { return {a.re * b.re, a.im + b.im}; }
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { complex<float> a{x[i], 1.0f}; complex<float> b{2.0f, x[i]}; complex<float> c = a * b; y[i] = c.re + c.im; }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # one name for a float and a complex type
    "ALIAS_TWICE": Foreign(
        HEAD
        + """
#include <complex>

static float real_part(float x) { using T = float; const T a = x, b = 2.0f; return a * b; }
static float complex_part(float x) { using T = std::complex<float>;
   const T a(x, 1.0f), b(2.0f, x); const T c = a * b; return c.real() + c.imag();
   }
extern "C" void solve(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = real_part(x[i]) + complex_part(x[i]); }
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # members and results of other types than what is given
    "CONVERTING_MEMBERS": Foreign(
        HEAD
        + """
struct View { const float* d; double scale; int n; double at(int i) const {
   return d[i] * scale; } float low(int i) const { return d[i] * scale;
   } };
extern "C" void solve(const float* x, float* y, int n) {
  const View v{x, 0.1f, n};
  for (int i = 0; i < n; ++i) y[i] = (float)(v.at(i) * 3.0 - v.low(i) * 3.0) * 1e6f + (float)(v.scale - 0.1) * 1e9f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a view that lambdas hold by value and by name
    "CAPTURED_VIEW": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float at(int i) const { return d[i]; } };
extern "C" void solve(const float* x, float* y, int n) {
  View v{x, n};
  auto by_value = [v](int i) { float s = v.at(i); s += 1.0f; return s; };
  auto by_name = [&](int i) { float s = v.at(i); s *= 2.0f; return s; };
  auto all = [=](int i) { float s = v.d[i]; s *= 3.0f; return s; };
  v.d = x + 1;
  for (int i = 0; i + 1 < n; ++i) y[i] = by_value(i) + by_name(i) + all(i);
  y[n - 1] = 0.0f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # parameters without names before a view
    "VIEW_UNNAMED": Foreign(
        HEAD
        + """
struct View { const float* d; int n; float at(int i) const { return d[i]; } };
static float get(int, const View& v, const View&, int i) { return v.at(i); }
static float other(int, const View& v, int i) { return v.at(i); }
extern "C" void solve(const float* x, float* y, int n) { const View v{
  x, n}; const View w{x + 1, n}; for (int i = 0; i < n; ++i) y[i] = get(3, v, w, i) + other(1, v, i);
   }
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # floats named like complex numbers outside
    "COMPLEX_LAMBDA_SHADOW": Foreign(
        HEAD
        + """
#include <complex>

using C = std::complex<float>;
extern "C" void solve(const float* x, float* y, int n) {
  const C a = {1.0f, 2.0f}; const C b = {0.5f, 0.25f};
  auto mul = [](float a, float b) { float s = a * b; s += 1.0f; return s; };
  std::vector<float> list = {1.0f, 2.0f};
  for (int i = 0; i < n; ++i) { float t = mul(x[i], 2.0f) + (a * b).real() * x[i];
   for (float a : list) { const auto b = a * a; t += b * a; } y[i] = t;
   }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a product of complex numbers of the file's own
    "OWN_OPERATOR": Foreign(
        HEAD
        + """
#include <complex>

using C = std::complex<float>;
static C operator*(const C& a, const C& b) { return C(a.real() * b.real(), a.imag() + b.imag()); }
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) { const C a = {x[i], 1.0f}; const C b = {2.0f, x[i]}; const C c = a * b; y[i] = c.real() + c.imag(); }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
        ),
    ),
    # a function named max that is none
    "MACRO_NORM": Foreign(
        HEAD
        + """
#define NORM(p, v) (*(p) = *(p) * 0.5f + (v))
static float max(float a, float b) { return a * a > b * b ? a : b; }
static float fmaxf2(float a, float b) { return max(a, b); }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  for (int i = 0; i < rows; ++i) { float m = 0.0f, s = 0.0f; for (int j = 0; j < cols; ++j) {
   m = max(m, x[i * cols + j]); s = fmaxf2(s, x[i * cols + j]);
   NORM(&y[i], m + s); } y[i] = m + s; }
}
""",
        (
            "in:311x157",
            "inout:311",
            311,
            157,
        ),
    ),
    # a template named max that is none
    "TEMPLATE_NAMED_MAX": Foreign(
        HEAD
        + """
template <class T> static T max(T a, T b) { return a * a > b * b ? a : b; }
extern "C" void solve(const float* x, float* y, int rows, int cols) {
  double d = 0.0;
  for (int i = 0; i < rows; ++i) { float m = 0.0f; for (int j = 0; j < cols; ++j) {
   m = max(m, x[i * cols + j]); d = max(d, (double)m); } y[i] = m + (float)d;
   }
}
""",
        (
            "in:311x157",
            "out:311",
            311,
            157,
        ),
    ),
    # a window that ends with its last element, and may be empty
    "WINDOW_INCLUSIVE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h, int g) {
  for (int t = h; t < n - h; ++t) {
    float s = 0.0f;
    for (int k = t - h; k <= t + g; ++k) s += x[k] * (float)(k - t);
    y[t] = s;
  }
  for (int t = 0; t < h; ++t) y[t] = 0.0f;
  for (int t = n - h; t < n; ++t) y[t] = 1.0f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            5,
            -9,
        ),
    ),
    # a window of what the loop itself has written
    "WINDOW_IN_PLACE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h) {
  for (int t = 0; t < h; ++t) y[t] = x[t];
  for (int t = h; t < n; ++t) {
    float s = 0.0f;
    for (int k = t - h; k < t; ++k) s += y[k];
    y[t] = 0.1f * s + x[t];
  }
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            7,
        ),
    ),
    # a window whose length changes while the loop runs
    "WINDOW_GROWS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int h) {
  int length = 3;
  for (int t = 0; t < n - 40; ++t) {
    float s = 0.0f;
    for (int k = t; k < t + length; ++k) s += x[k];
    y[t] = s;
    if (x[t] > 1.0f) length = length % 37 + h;
  }
  for (int t = n - 40; t < n; ++t) y[t] = 0.0f;
}
""",
        (
            "in:20011",
            "out:20011",
            20011,
            1,
        ),
    ),
    # a counter that is used behind a window's index, in both loops
    "WINDOW_OF_ROWS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int m, int h) {
  for (int i = 0; i < n; ++i)
    for (int t = h; t < m - h; ++t) {
      float best = x[i * m + t];
      int at = t;
      for (int k = t - h; k < t + h + 1; ++k)
        if (x[i * m + k] > best) { best = x[i * m + k]; at = k; }
      y[i * m + t] = best + (float)(at - t);
    }
  for (int i = 0; i < n; ++i)
    for (int t = 0; t < m; ++t)
      if (t < h || t >= m - h) y[i * m + t] = 0.0f;
}
""",
        (
            "in:31x457",
            "out:31x457",
            31,
            457,
            4,
        ),
    ),
    # a member that is read after it was written through the same object
    "STRUCT_ADDS_ITSELF": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V& operator+=(V& a, const V& b) { a.x += b.y; a.y += b.x; return a; }
static void twist(V& a, V b) { a.x = b.y; a.y = b.x; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  V* to = reinterpret_cast<V*>(q);
  for (int i = 0; i < n; ++i) {
    V a = from[i];
    a += a;
    twist(a, a);
    a = {a.y, a.x};
    to[i] = a;
    to[i] += to[i];
  }
}
""",
        ("in:2002", "out:2002", 1001),
    ),
    # an argument with an effect, which is evaluated once
    "STRUCT_COUNTED_ARGUMENT": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V operator*(const V& a, float s) { return {a.x * s, a.y * s}; }
static float norm(const V& a) { return a.x * a.x + a.y * a.y; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  int k = 0;
  for (int i = 0; i < n; ++i) q[i] = norm(from[k++] * p[i]);
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # a name of the file that the caller's own name hides
    "STRUCT_GLOBAL_HIDDEN": Foreign(
        HEAD
        + """
struct V { float x, y; };
static const float scale = 3.0f;
static V scaled(const V& a) { return {a.x * scale, a.y * scale}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    const float scale = 0.25f;
    const V a = scaled(from[i]);
    q[i] = a.x * scale + a.y;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # locals of a function that are called like the caller's
    "STRUCT_LOCALS_ALIKE": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V turned(const V& r, float s) { float t = r.x * s; float u = r.y - t; t = t + u; return {u, t}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    float t = p[i], u = p[n + i];
    const V s = from[i];
    { const V s = turned(from[n - 1 - i], u); q[i] = s.x + t; }
    const V r = turned(s, t);
    q[i] += r.x * u + r.y * t;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # members of two types: the struct has a gap and is no row of floats
    "STRUCT_WITH_A_GAP": Foreign(
        HEAD
        + """
struct V { float x; double y; };
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n / 4; ++i) q[i] = from[i].x;
}
""",
        ("in:4004", "out:1001", 4004),
    ),
    # a member that is wider than its values
    "STRUCT_ALIGNED": Foreign(
        HEAD
        + """
struct alignas(16) V { float x, y, z; };
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n / 4; ++i) q[i] = from[i].x + from[i].z;
}
""",
        ("in:4004", "out:1001", 4004),
    ),
    # a member narrower than what it is given
    "STRUCT_NARROW_MEMBER": Foreign(
        HEAD
        + """
struct Cell { int count; float rest; };
static Cell split(float v) { Cell c; c.count = v * 10.0f; c.rest = v * 10.0f - c.count; return c; }
static float both(const Cell& a, int by) { return a.count / by + a.rest; }
extern "C" void solve(const float* p, float* q, int n) {
  for (int i = 0; i < n; ++i) {
    const Cell c = split(p[i]);
    q[i] = both(c, 2.9f) + c.count / 3;
  }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # objects in an array of the function's own, and one returned by a condition
    "STRUCT_ARRAY": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V operator+(V a, V b) { a.x += b.x; a.y += b.y; return a; }
extern "C" void solve(const float* p, float* q, int n) {
  V near[4] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  for (int i = 0; i < n; ++i) {
    const V a = {p[2 * i], p[2 * i + 1]};
    const V b = a.x < a.y ? a : near[i % 4];
    near[i % 4] = near[(i + 1) % 4] + b;
    q[i] = near[i % 4].x - b.y;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # an operator that counts how often it is called
    "STRUCT_OPERATOR_COUNTS": Foreign(
        HEAD
        + """
struct V { float x, y; };
static int calls;
static V operator-(const V& a, const V& b) { ++calls; return {a.x - b.x, a.y - b.y}; }
static V operator+(const V& a, const V& b) { static int turn = 0; turn = (turn + 1) % 3; return {a.x + b.x * turn, a.y + b.y}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  calls = 0;
  for (int i = 0; i < n; ++i) {
    const V d = from[i] - from[n - 1 - i];
    q[i] = d.x * (calls % 5) + d.y;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # a function that returns early, one that calls itself, and one with an argument of its own
    "STRUCT_EARLY_RETURN": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V unit(const V& a) {
  if (a.x == 0.0f && a.y == 0.0f) return a;
  const float s = 1.0f / std::sqrt(a.x * a.x + a.y * a.y);
  return {a.x * s, a.y * s};
}
static V half(const V& a, int k) { return k ? half({a.y * 0.5f, a.x * 0.5f}, k - 1) : a; }
static V moved(const V& a, float by = 2.0f) { return {a.x + by, a.y - by}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    const V a = unit(from[i]);
    const V b = half(from[i], 3);
    const V c = moved(from[i]);
    q[i] = a.x + b.y * c.x;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # a part of an expression that is not always evaluated
    "STRUCT_NOT_ALWAYS_READ": Foreign(
        HEAD
        + """
struct V { float x, y; };
static float norm(const V& a) { return a.x * a.x + a.y * a.y; }
extern "C" void solve(const float* p, const int* at, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    const long k = i % 3 ? i : 100000000000L + i;
    q[i] = k < n && norm(from[k]) > 0.5f ? norm(from[k]) : 1.0f;
  }
}
""",
        ("in:2002", "index:1001x7", "out:1001", 1001),
    ),
    # a macro that names a member and one that names an object
    "STRUCT_IN_MACROS": Foreign(
        HEAD
        + """
struct V { float x, y; };
#define LENGTH std::sqrt(a.x * a.x + a.y * a.y)
#define HERE r
#define SUB(a, b) ((a) - (b))
static V operator-(const V& a, const V& b) { return {a.x - b.x, a.y - b.y}; }
static float length(const V& a) { return LENGTH; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    const V r = SUB(from[i], from[n - 1 - i]);
    const float a = HERE.x;
    q[i] = length(r) + a;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # a reference sees what is stored later, a copy does not
    "STRUCT_REFERENCE_AND_COPY": Foreign(
        HEAD
        + """
struct V { float x, y; };
static V& operator*=(V& a, float s) { a.x *= s; a.y *= s; return a; }
extern "C" void solve(const float* p, float* q, int n) {
  V* to = reinterpret_cast<V*>(q);
  for (int i = 0; i < n; ++i) {
    to[i] = {p[2 * i], p[2 * i + 1]};
    const V before = to[i];
    const V& now = to[i];
    V& same = to[i];
    same *= now.x;
    to[i].y += before.x * now.x + now.y;
  }
}
""",
        ("in:2002", "out:2002", 1001),
    ),
    # functions of one name, of which one takes the struct
    "STRUCT_OVERLOADS": Foreign(
        HEAD
        + """
struct V { float x, y; };
static float size(const V& a) { return a.x + a.y; }
static float size(double a) { return a * 2.0; }
static V operator*(const V& a, float s) { return {a.x * s, a.y * s}; }
static V operator*(const V& a, double s) { return {float(a.x + s), float(a.y + s)}; }
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) q[i] = size(from[i] * 2.0) + size(from[i] * 3.0f) + size(p[i]);
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # the turn that is left out would give a number that is none, and its sum starts from a negative zero
    "LEFT_OUT_IS_INFINITE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, const float* w, float* y, float* z, int n) {
  for (int i = 0; i < n; ++i) {
    float s = -0.0f;
    y[i] = 0.0f;
    for (int j = 0; j < n; ++j) {
      if (i == j) continue;
      const float d = x[j] - x[i];
      s += w[j] * 0.0f / (d * d);
      y[i] -= w[j] / d;
    }
    z[i] = std::signbit(s + w[n]) ? 1.0f : s;
  }
}
""",
        ("in:311", "in:312", "out:311", "out:311", 311),
    ),
    # the turn that is left out reads what no other turn does, divides by nothing, or is not left out always
    "LEFT_OUT_FOR_A_REASON": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n, int m) {
  for (int i = 0; i < n; ++i) {
    float s = 0.0f;
    int k = 0;
    for (int j = 0; j < n; ++j) {
      if (i == j) continue;
      s += x[i * n + j] + x[n * n * 4096L * (j == i) + j];
      k += n / (i - j);
    }
    y[i] = s + k;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j)
      if (i != j) y[j] += 0.5f * x[i];
    if (i == m) break;
  }
}
""",
        ("in:101x101", "out:101", 101, 57),
    ),
    # windows of which some lie wholly outside, and some have no element at all
    "WINDOWS_OUTSIDE": Foreign(
        HEAD
        + """
static float window_max(const float* plane, int H, int W, int top, int left) {
  float best = -1.0f;
  for (int r = std::max(top, 0); r < std::min(top + 3, H); ++r)
    for (int c = std::max(left, 0); c < std::min(left + 3, W); ++c)
      if (plane[r * W + c] > best) best = plane[r * W + c];
  return best;
}
extern "C" void solve(const float* x, float* y, int H, int W, int OH, int OW) {
  for (int i = 0; i < OH; ++i)
    for (int j = 0; j < OW; ++j) y[i * OW + j] = window_max(x, H, W, 2 * i - 9, 2 * j - 13);
}
""",
        ("in:23x57", "out:31x93", 23, 57, 31, 93),
    ),
    # an output that is narrower than what its windows need
    "WINDOWS_CUT": Foreign(
        HEAD
        + """
static float window_sum(const float* row, int n, int from) {
  float s = 0.0f;
  for (int k = std::max(from, 0); k < std::min(from + 7, n); ++k) s += row[k];
  return s;
}
extern "C" void solve(const float* x, float* y, int rows, int n, int m) {
  const int half = m / 2;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < half; ++j) y[i * half + j] = window_sum(x + i * n, n, 3 * j - 2) + 1.0f;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < half; ++j) y[i * half + j] += window_sum(x + i * n, n - 40, 3 * j - n / 2);
}
""",
        ("in:17x211", "out:17x70", 17, 211, 140),
    ),
    # what the function declares is called like what its caller declares, and its own argument is counted on
    "BODY_NAMES_ALIKE": Foreign(
        HEAD
        + """
static float window_sum(const float* x, int i, int n) {
  float s = 0.0f;
  for (int j = i - 1; j < i + 2; ++j) s += x[(j + n) % n];
  n = n / 2;
  for (int j = i + 3; j < i + 5; ++j) s -= x[j % n];
  i += 3;
  return s * i;
}
extern "C" void solve(const float* x, float* y, int n, int m) {
  for (int j = 0; j < n; ++j) {
    float s = x[j];
    float t = window_sum(x, n - j, n);
    t += s;
    s = window_sum(x, j, m);
    y[j] = window_sum(x, j + m, n);
    y[j] += s + t + n + m + j;
  }
}
""",
        ("in:1003", "out:1003", 1003, 501),
    ),
    # a function that leaves early, one that keeps a count, one with an argument of its own
    "BODY_LEAVES_EARLY": Foreign(
        HEAD
        + """
static float first_above(const float* x, int from, int to) {
  for (int k = from; k < to; ++k) if (x[k] > 0.5f) return x[k];
  return -1.0f;
}
static float every_third(const float* x, int from, int to) {
  static int calls = 0;
  calls = (calls + 1) % 3;
  float s = 0.0f;
  for (int k = from; k < to; ++k) s += x[k] * (calls == 0);
  return s;
}
static float wide(const float* x, int from, int width = 5) {
  float s = 0.0f;
  for (int k = from; k < from + width; ++k) s += x[k];
  return s;
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int j = 0; j < n - 9; ++j) {
    y[j] = first_above(x, j, j + 6);
    const float again = wide(x, j);
    y[j] += again;
  }
  float s = 0.0f;
  for (int j = 0; j < (n - 9) / 3 * 3; ++j) s = every_third(x, j, j + 2) + s;
  for (int j = n - 9; j < n; ++j) y[j] = s;
}
""",
        ("in:1003", "out:1003", 1003),
    ),
    # a function that calls itself, and one that writes through what it is given
    "BODY_WRITES_BACK": Foreign(
        HEAD
        + """
static float folded(const float* x, int from, int to) {
  float s = 0.0f;
  for (int k = from; k < to; ++k) s += x[k];
  if (to - from > 1) s += folded(x, from, to - 1);
  return s;
}
static float counted(const float* x, int from, int& used, float* last) {
  float s = 0.0f;
  for (int k = from; k < from + 3; ++k) { s += x[k]; used += x[k] > 0.0f; *last = x[k]; }
  return s;
}
static float kept(const float* x, int from, float* last) {
  float s = last[0] * 0.5f;
  for (int k = from; k < from + 3; ++k) { s += x[k]; last[0] = s; }
  return s * 0.25f;
}
extern "C" void solve(const float* x, float* y, int n) {
  int used = 0;
  float last = 0.0f, chain[1] = {0.0f};
  for (int j = 0; j < n - 4; ++j) {
    y[j] = folded(x, j, j + 4);
    y[j] += counted(x, j, used, &last);
    const float chained = kept(x, j, chain);
    y[j] += chained + used % 7 + last;
  }
  for (int j = n - 4; j < n; ++j) y[j] = chain[0];
}
""",
        ("in:1003", "out:1003", 1003),
    ),
    # a template, a call made by a macro, a macro that means the caller's names, and a result that is cut off
    "BODY_BY_MACRO": Foreign(
        HEAD
        + """
#define AT(k) x[(k) % n]
#define SUM(j) window(x, n, (j), (j) + 3)
#define WEIGHT s
template <class T> static T window(const T* x, int n, int from, int to) {
  T s = 0;
  for (int k = from; k < to; ++k) s += AT(k);
  return s;
}
static int whole(const float* x, int n, int from) {
  float s = 0.25f;
  for (int k = from; k < from + 5; ++k) s += 3.0f * AT(k);
  return s;
}
extern "C" void solve(const float* x, float* y, int n) {
  const float s = 3.0f;
  for (int j = 0; j < n; ++j) {
    y[j] = SUM(j + 1);
    const float t = whole(x, n, j);
    y[j] += t * WEIGHT;
  }
}
""",
        ("in:1003", "out:1003", 1003),
    ),
    # arguments that do something, and a left side that does
    "BODY_COUNTED_ARGUMENT": Foreign(
        HEAD
        + """
static float window(const float* x, int from, float by) {
  float s = 0.0f;
  for (int k = from; k < from + 3; ++k) s += x[k] * by;
  return s;
}
extern "C" void solve(const float* x, float* y, int n) {
  int at = 0, to = 0;
  const float* p = x;
  for (int j = 0; j < n - 3; ++j) {
    y[to++] = window(x, j, x[at++]);
    y[j] += window(p++, j - at + 1, 2);
  }
  for (int j = n - 3; j < n; ++j) y[j] = at + to;
}
""",
        ("in:1003", "out:1003", 1003),
    ),
    # a name of the file that the caller hides, and a number that is written through another name
    "BODY_GLOBAL_HIDDEN": Foreign(
        HEAD
        + """
static const int width = 3;
static float window(const float* x, int from) {
  float s = 0.0f;
  for (int k = from; k < from + width; ++k) s += x[k];
  return s;
}
static float total(float* into, const float* x, int from) {
  float s = 0.0f;
  for (int k = from; k < from + 2; ++k) { s += x[k]; into[k] += s; }
  return s;
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int j = 0; j < n; ++j) y[j] = 0.0f;
  for (int j = 0; j < n - 5; ++j) {
    const int width = 5;
    const float s = window(x, j);
    y[j] += s * width;
    y[j + 1] = total(y, x, j);
  }
}
""",
        ("in:1003", "out:1003", 1003),
    ),
    # methods that hide the file's names, that call each other, and whose object is a value of its own
    "METHODS_HIDE": Foreign(
        HEAD
        + """
static const float x = 7.0f;
struct V {
  float x, y;
  V operator+(const V& o) const { return {x + o.x, o.y - y}; }
  V turned(float y) const { const float t = x * y; return {this->y - t, t + y}; }
  V& operator-=(const V& o) { x -= o.y; y -= o.x; return *this; }
  float size() const { return x * x + y * y; }
};
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  for (int i = 0; i < n; ++i) {
    V a = from[i] + from[n - 1 - i];
    const V b = a.turned(x);
    a -= a;
    a -= b;
    q[i] = a.size() + from[i].size() * x;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # a method that another one calls, one that is called for a value in between, one that keeps a count
    "METHODS_CALL_EACH_OTHER": Foreign(
        HEAD
        + """
struct V {
  float x, y;
  float dot(const V& o) const { return x * o.x + y * o.y; }
  float size() const { return dot(*this); }
  V operator-(const V& o) const { return {x - o.x, y - o.y}; }
};
static float dot(const V& o) { return o.x; }
struct C {
  float r;
  int turns;
  C next(const C& o) { ++turns; return {r + o.r, turns}; }
};
extern "C" void solve(const float* p, float* q, int n) {
  const V* from = reinterpret_cast<const V*>(p);
  C c = {0.5f, 0};
  for (int i = 0; i < n; ++i) {
    const V a = from[i];
    c = c.next(c);
    c.r = p[i];
    q[i] = (a - from[n - 1 - i]).size() + dot(a) + c.turns % 3;
  }
}
""",
        ("in:2002", "out:1001", 1001),
    ),
    # sums of a wider integer than int
    "RUNNING_INT64": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::vector<int64_t> z(n);
  z[0] = 2000000000;
  for (int i = 1; i < n; ++i) z[i] = z[i - 1] + 1000000000;
  for (int i = 0; i < n; ++i) y[i] = (float)(z[i] / 1000000000) + x[i];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # a function moves the offset
    "CHANGED_BY_REFERENCE": Foreign(
        HEAD
        + """
static void bump(int& k, int by) { k += by; }
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
  int k = 0;
  bump(k, 1);
  for (int i = 0; i + 1 < n; ++i) y[i + k] = y[i] * 0.5f + x[i];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # another name for the offset
    "CHANGED_THROUGH_A_REFERENCE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
  int k = 0;
  int& other = k;
  other = 1;
  for (int i = 0; i + 1 < n; ++i) y[i + k] = y[i] * 0.5f + x[i];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # std::swap writes to both
    "SWAPPED_OFFSETS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i];
  int lag = 1, ahead = 0;
  if (n > 2) std::swap(lag, ahead);
  for (int i = 0; i + 1 < n; ++i) y[i + ahead] = y[i + lag] * 0.5f + x[i];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # and so it does to pointers
    "SWAPPED_POINTERS": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> t(n, 1.0f);
  for (int i = 0; i < n; ++i) y[i] = x[i];
  float *p = y, *q = t.data();
  std::swap(p, q);
  for (int i = 1; i < n; ++i) y[i] = q[i - 1] * 0.5f + x[i];
  y[0] += p[0];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # a lambda keeps the value from before
    "COPY_CHANGED_BY_REFERENCE": Foreign(
        HEAD
        + """
static void bump(float& k) { k += 3.0f; }
extern "C" void solve(const float* x, float* y, int n) {
  float k = 2.0f;
  auto f = [=](float v) { return k * v; };
  bump(k);
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + k;
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # a lambda keeps the elements from before
    "COPY_OF_AN_ARRAY": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  float w[2] = {1.0f, 2.0f};
  auto f = [=](float v) { return w[0] * v + w[1]; };
  w[0] = 7.0f;
  for (int i = 0; i < n; ++i) y[i] = f(x[i]) + w[0];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the argument counts its calls
    "ARGUMENT_WITH_EFFECTS": Foreign(
        HEAD
        + """
static int calls;
static float next() { return (float)(++calls % 7); }
extern "C" void solve(const float* x, float* y, int n) {
  calls = 0;
  auto square = [](float v) { return v * v + v; };
  for (int i = 0; i < n; ++i) y[i] = x[i] + square(next());
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the condition is a global's
    "GLOBAL_CHANGED_BY_A_CALL": Foreign(
        HEAD
        + """
static int mode;
static void put(float* y, int i, float v) { y[i] = v; if (v > 1.0f) mode = 1; }
extern "C" void solve(const float* x, float* y, int n) {
  mode = 0;
  for (int i = 0; i < n; ++i) {
    if (mode == 0) put(y, i, x[i]);
    else y[i] = -x[i];
  }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # threads share the element
    "ATOMIC_SUM": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = 0.0f;
  #pragma omp parallel for
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < n; ++j) {
      #pragma omp atomic
      y[0] += x[j] > 0.0f ? 1.0f : 0.0f;
    }
  for (int i = 1; i < n; ++i) y[i] = x[i];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the loop counts down its own end
    "END_IN_MEMORY": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  y[0] = (float)n;
  for (int i = 1; i < n; ++i) y[i] = x[i];
  for (int j = 0; j < y[0]; ++j) { if (x[j] < 0.0f) y[0] -= 1.0f; }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # there may be no counter
    "MAYBE_NO_POINTER": Foreign(
        HEAD
        + """
static void add(const float* x, float* out, float* count, int n) {
  for (int j = 0; j < n; ++j) { out[0] += x[j]; if (count) count[0] += 1.0f; }
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  add(x, y, nullptr, 5);
  add(x, y + 1, y + 2, 7);
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the element is there only where the flag says so
    "ELEMENT_ONLY_IF": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  for (int i = 0; i < 9; ++i) {
    const bool there = i > 3;
    const long at = there ? i : -100000000000L;
    for (int j = 0; j < n; ++j) if (there) y[at] += x[j] * 0.01f;
  }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the same memory in another width
    "BYTES_OF_THE_SUM": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> z(n);
  for (int i = 0; i < n; ++i) y[i] = 0.0f;
  auto bytes = (const unsigned char*)y;
  for (int j = 0; j < n; ++j) { y[0] += x[j]; z[j] = bytes[2]; }
  for (int j = 1; j < n; ++j) y[j] = z[j];
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # no divisor, no division
    "DIVISOR_OR_NONE": Foreign(
        HEAD
        + """
static void scaled(const float* x, const float* s, float* out, int n) {
  for (int j = 0; j < n; ++j) out[j] = s ? x[j] / s[0] : x[j];
}
extern "C" void solve(const float* x, float* y, int n) { scaled(x, n > 3 ? nullptr : x, y, n); }
""",
        ("in:1001", "out:1001", 1001),
    ),
    # the load comes before the store that a declaration hides
    "STORED_IN_A_DECLARATION": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  std::vector<float> w(n);
  for (int i = 0; i < n; ++i) { y[i] = w[i]; float t = (w[i] = x[i]); y[i] += t; }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # a body for one type
    "TEMPLATE_FOR_ONE_TYPE": Foreign(
        HEAD
        + """
namespace {
template <class T> T twice(T v) { return 2 * v; }
template <> float twice<float>(float v) { return 3 * v; }
}
extern "C" void solve(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = twice<float>(x[i]);
}
""",
        ("in:1001", "out:1001", 1001),
    ),
    # a length that is not asked for where its divisor is zero
    "LENGTH_OR_NONE": Foreign(
        HEAD
        + """
extern "C" void solve(const float* x, float* y, int n) {
  const int parts = n > 3 ? 0 : 7;
  for (int i = 0; i < n; ++i) {
    float s = x[i];
    if (parts > 0) for (int j = 0; j < n / parts; ++j) s += x[j];
    y[i] = s;
  }
}
""",
        ("in:1001", "out:1001", 1001),
    ),
}
