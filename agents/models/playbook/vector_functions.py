"""C++ text of elementary functions that a compiler can inline and vectorise without -ffast-math.

Range reduction with a split ln 2, a minimax polynomial (iteratively reweighted least squares on Chebyshev nodes, relative error), and
selects instead of branches. Special values are those of <cmath>: exp(-inf)=0, exp(large)=inf, NaN stays NaN, subnormal results included.
"""

from __future__ import annotations

from collections.abc import Sequence

# exp(r) - 1 - r over r^2, |r| <= ln(2)/2.
EXP_FLOAT: dict[str, tuple[str, ...]] = {
    "5": ("4.999923028e-01f", "1.666711538e-01f", "4.189033461e-02f", "8.312503349e-03f"),
    "6": ("4.999999343e-01f", "1.666652040e-01f", "4.166839083e-02f", "8.368745320e-03f", "1.381453789e-03f"),
    "7": ("5.000000068e-01f", "1.666666587e-01f", "4.166629435e-02f", "8.333497336e-03f", "1.394470420e-03f", "1.979030288e-04f"),
}
EXP_DOUBLE = (
    "5.00000000000000111e-01", "1.66666666666642399e-01", "4.16666666666273625e-02", "8.33333333481489462e-03", "1.38888889174529850e-03",
    "1.98412667633391954e-04", "2.48015194470976320e-05", "2.75599608520206357e-06", "2.76212372623541119e-07", "2.42632106251765369e-08",
)  # fmt: skip
# log(1 + f) - f + f^2/2 over f^3, 1 + f in [sqrt(1/2), sqrt(2)].
LOG_FLOAT = (
    "3.333331254e-01f", "-2.500000952e-01f", "2.000212353e-01f", "-1.666800500e-01f", "1.421945162e-01f",
    "-1.240534258e-01f", "1.188870905e-01f", "-1.167750532e-01f", "6.747691804e-02f",
)  # fmt: skip
# tanh(x)/x - 1 over x^2 in powers of x^2, |x| <= 0.625.
TANH_FLOAT = ("-3.333328119e-01f", "1.333142040e-01f", "-5.373779912e-02f", "2.063254943e-02f", "-5.697387129e-03f")


def horner(coefficients: Sequence[str], variable: str) -> str:
    text = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text}) * {variable} + {coefficient}"
    return text


def pick(kind: str) -> str:
    """kw_pick of float or double: x where `first`, else y, on the bits. GCC makes a branch of a select where it sees the condition again,
    or a constant on one side, and a loop with branches stays scalar."""
    bits, size = ("unsigned", 4) if kind == "float" else ("unsigned long long", 8)
    return f"""static inline __attribute__((always_inline)) {kind} kw_pick({kind} x, {kind} y, bool first) {{
  const {bits} mask = ({bits})0 - ({bits})first;
  {bits} a, b;
  __builtin_memcpy(&a, &x, {size});
  __builtin_memcpy(&b, &y, {size});
  a = (a & mask) | (b & ~mask);
  {kind} z;
  __builtin_memcpy(&z, &a, {size});
  return z;
}}
"""


def exp_polynomial(degree: str) -> str:
    """The part of kw_exp(float) that a degree changes."""
    return horner(EXP_FLOAT[degree], "r")


def exp_float(degree: str) -> str:
    """kw_exp(float): about 1 ulp at degree 6 and 7, 2 ulp at 5."""
    # The clamp is on the bits, since one by comparisons is folded apart and what is left is no vector loop. The rounding is the carry into
    # the last bits of 1.5 * 2^23. 2^n is two factors, so that neither overflows. Comments in the text itself are paid for with each prompt.
    return f"""static inline __attribute__((always_inline)) float kw_exp(float x) {{
  // |x| clamped to 104 on the bits, NaN stays.
  unsigned all;
  __builtin_memcpy(&all, &x, 4);
  const unsigned size = all & 0x7fffffffu;
  const unsigned over = 0u - (unsigned)(size - 0x42d00001u <= 0x3cafffffu);
  const unsigned kept = (0x42d00000u & over) | (size & ~over);
  all = (all & 0x80000000u) | kept;
  float c;
  __builtin_memcpy(&c, &all, 4);
  // n = round(x / ln 2)
  const float shifted = c * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (c - n * 0.69140625f) - n * 1.7409305599e-03f;
  const float q = {exp_polynomial(degree)};
  const float p = (q * r) * r + r + 1.0f;
  unsigned bits;
  __builtin_memcpy(&bits, &shifted, 4);
  // 2^n in two factors, rounded once.
  const int e = (int)(bits - 0x4b400000u);
  const int half = e >> 1;
  const unsigned low = (unsigned)(half + 127) << 23, high = (unsigned)(e - half + 127) << 23;
  float a, b;
  __builtin_memcpy(&a, &low, 4);
  __builtin_memcpy(&b, &high, 4);
  return p * a * b;
}}
"""


def exp_double() -> str:
    """kw_exp(double)."""
    return f"""static inline __attribute__((always_inline)) double kw_exp(double x) {{
  // |x| clamped to 746 on the bits (NaN stays): a clamp by comparisons is folded apart where x comes from a float.
  unsigned long long all;
  __builtin_memcpy(&all, &x, 8);
  const unsigned long long size = all & 0x7fffffffffffffffull;
  const unsigned long long over = 0ull - (unsigned long long)(size - 0x4087500000000001ull <= 0x3f68afffffffffffull);
  const unsigned long long kept = (0x4087500000000000ull & over) | (size & ~over);
  all = (all & 0x8000000000000000ull) | kept;
  double c;
  __builtin_memcpy(&c, &all, 8);
  const double shifted = c * 1.4426950408889634 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const double r = (c - n * 0.6931467056274414) - n * 4.749325039031672e-07;
  const double q = {horner(EXP_DOUBLE, "r")};
  const double p = (q * r) * r + r + 1.0;
  unsigned long long bits;
  __builtin_memcpy(&bits, &shifted, 8);
  const long long e = (long long)(bits - 0x4338000000000000ull);
  const long long half = e / 2;
  const unsigned long long low = (unsigned long long)(half + 1023) << 52, high = (unsigned long long)(e - half + 1023) << 52;
  double a, b;
  __builtin_memcpy(&a, &low, 8);
  __builtin_memcpy(&b, &high, 8);
  return p * a * b;
}}
"""


def log_float() -> str:
    """kw_log(float): about 2 ulp."""
    return f"""static inline __attribute__((always_inline)) float kw_log(float x) {{
  // A subnormal is scaled by 2^23.
  const unsigned shift = (0u - (unsigned)(x < 1.17549435e-38f)) & 23u;
  const unsigned power = (shift + 127u) << 23;
  float scale;
  __builtin_memcpy(&scale, &power, 4);
  const float scaled = x * scale;
  unsigned bits;
  __builtin_memcpy(&bits, &scaled, 4);
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const int e = (int)(bits - 0x3f3504f3u) >> 23;
  const unsigned mantissa = bits - ((unsigned)e << 23);
  float m;
  __builtin_memcpy(&m, &mantissa, 4);
  const float f = m - 1.0f;
  const float k = (float)(e - (int)shift);
  const float q = {horner(LOG_FLOAT, "f")};
  const float small = (f * f * f) * q - 0.5f * (f * f);
  // ln 2 in two parts, the first exact in k * part; what is special is added, so that no branch can skip the polynomial.
  const float y = k * 0.693359375f + (f + (small - k * 2.12194440e-04f));
  const float large = kw_pick(0.0f, x, x <= 3.40282347e+38f);
  const float zero = kw_pick(-__builtin_inff(), 0.0f, x == 0.0f);
  const float negative = kw_pick(__builtin_nanf(""), 0.0f, x < 0.0f);
  return ((y + large) + zero) + negative;
}}
"""


def tanh_float() -> str:
    """kw_tanh(float): about 2 ulp; needs kw_exp(float)."""
    return f"""static inline __attribute__((always_inline)) float kw_tanh(float x) {{
  const float a = __builtin_fabsf(x);
  const float z = x * x;
  const float q = {horner(TANH_FLOAT, "z")};
  const float near = (q * z) * x + x;
  const float far = 1.0f - 2.0f / (kw_exp(2.0f * a) + 1.0f);
  return kw_pick(near, kw_pick(-far, far, x < 0.0f), a < 0.625f);
}}
"""
