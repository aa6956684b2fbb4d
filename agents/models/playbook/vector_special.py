"""C++ text of further elementary functions in the manner of `vector_functions`: no branch, no table, no call.

Coefficients are Chebyshev interpolants. erfc is written as exp(-x^2) g(t) / (1 + 2 x) with t = (x - k) / (x + k), after Shepherd and
Laframboise (1981), https://doi.org/10.1090/S0025-5718-1981-0595058-X; angles are reduced by a split pi / 2 after Cody and Waite (1980).
"""

from __future__ import annotations

from agents.models.playbook.vector_functions import EXP_FLOAT, horner

# erf(x) / x - 1 in powers of x^2.
ERF_FLOAT = (
    "1.283791661e-01f", "-3.761262596e-01f", "1.128359437e-01f", "-2.685421146e-02f", "5.189087242e-03f", "-8.016864303e-04f",
    "7.875874871e-05f",
)  # fmt: skip
ERF_DOUBLE = (
    "1.28379167095512559e-01", "-3.76126389031828545e-01", "1.12837916708958028e-01", "-2.68661706299139977e-02",
    "5.22397742698529812e-03", "-8.54831213386209759e-04", "1.20546512408215299e-04", "-1.49062505780865168e-05",
    "1.61257566522375471e-06", "-1.30712033715269349e-07",
)  # fmt: skip
# log(erfc(x)), 1 <= x <= 4.
ERF_TAIL = (
    "3.201380605e-04f", "-1.130233407e+00f", "-6.318260431e-01f", "-1.100800857e-01f", "2.642113529e-02f", "-4.759596195e-03f",
    "5.968056503e-04f", "-4.605804133e-05f", "1.637151399e-06f",
)  # fmt: skip
# (1 + 2 x) exp(x^2) erfc(x) in t, k = 2 and 3.75.
ERFC_FLOAT = (
    "1.276978374e+00f", "-9.276390076e-02f", "-1.660315245e-01f", "1.640530974e-01f", "-5.420320854e-02f", "-8.042481728e-03f",
    "8.631817997e-03f", "1.262663398e-03f", "-1.249076682e-03f", "-3.500619787e-04f", "3.292978727e-05f",
)  # fmt: skip
ERFC_DOUBLE = (
    "1.23751263083782748e+00", "-1.40240598585546689e-01", "3.58541548546377920e-03", "8.22767384901120363e-02",
    "-1.08803930141712357e-01", "9.23043211615311582e-02", "-5.86933985903094133e-02", "2.83622774004577242e-02",
    "-9.74657955343187325e-03", "1.75562601715200392e-03", "2.93713666310886157e-04", "-2.90154965295709238e-04",
    "5.16489134695998653e-05", "2.23872596382301332e-05", "-1.14429909268054376e-05", "-9.80166675585857833e-07",
    "1.74811904683919651e-06", "-4.81583962167284879e-08", "-2.52614652677155061e-07", "1.59963352155737073e-08",
    "3.28508355623331609e-08", "-8.78212573480352069e-10", "-2.41082153654223324e-09",
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in powers of s^2, |s| <= 0.1716.
LOG_DOUBLE = (
    "6.66666666666666963e-01", "3.99999999998992384e-01", "2.85714286260958905e-01", "2.22222111151441609e-01",
    "1.81828905566956023e-01", "1.53316740301678606e-01", "1.46170375487916504e-01",
)  # fmt: skip
# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 in powers of r^2, |r| <= pi / 4.
SIN_FLOAT = ("-1.666666418e-01f", "8.332747966e-03f", "-1.958789071e-04f")
COS_FLOAT = ("4.166666418e-02f", "-1.388830249e-03f", "2.454794230e-05f")


def sqrt_float() -> str:
    """kw_sqrt(float): within 1 ulp. The compiler keeps a branch to the library beside its own instruction, for errno's sake."""
    return """static inline __attribute__((always_inline)) float kw_sqrt(float x) {
  const float scale = kw_pick(16777216.0f, 1.0f, x < 1.17549435e-38f), back = kw_pick(2.44140625e-04f, 1.0f, x < 1.17549435e-38f);
  const float c = kw_pick(3.40282347e+38f, x, x > 3.40282347e+38f) * scale;
  unsigned bits;
  __builtin_memcpy(&bits, &c, 4);
  bits = 0x5f3759dfu - (bits >> 1);
  float r;
  __builtin_memcpy(&r, &bits, 4);
  const float h = 0.5f * c;
  r = r * (1.5f - (h * r) * r);
  r = r * (1.5f - (h * r) * r);
  const float s = c * r;
  const float y = s + (0.5f * r) * (c - s * s);
  const float large = kw_pick(0.0f, x, x <= 3.40282347e+38f);
  const float negative = kw_pick(__builtin_nanf(""), 0.0f, x < 0.0f);
  return (y * back + large) + negative;
}
"""


def sqrt_double() -> str:
    """kw_sqrt(double): within 1 ulp."""
    return """static inline __attribute__((always_inline)) double kw_sqrt(double x) {
  const double scale = kw_pick(1.8014398509481984e+16, 1.0, x < 2.2250738585072014e-308);
  const double back = kw_pick(7.450580596923828e-09, 1.0, x < 2.2250738585072014e-308);
  const double c = kw_pick(1.7976931348623157e+308, x, x > 1.7976931348623157e+308) * scale;
  unsigned long long bits;
  __builtin_memcpy(&bits, &c, 8);
  bits = 0x5fe6eb50c7b537a9ull - (bits >> 1);
  double r;
  __builtin_memcpy(&r, &bits, 8);
  const double h = 0.5 * c;
  r = r * (1.5 - (h * r) * r);
  r = r * (1.5 - (h * r) * r);
  r = r * (1.5 - (h * r) * r);
  const double s = c * r;
  const double y = s + (0.5 * r) * (c - s * s);
  const double large = kw_pick(0.0, x, x <= 1.7976931348623157e+308);
  const double negative = kw_pick(__builtin_nan(""), 0.0, x < 0.0);
  return (y * back + large) + negative;
}
"""


def log_double() -> str:
    """kw_log(double): about 1 ulp."""
    return f"""static inline __attribute__((always_inline)) double kw_log(double x) {{
  const double scale = kw_pick(1.8014398509481984e+16, 1.0, x < 2.2250738585072014e-308);
  const double shift = kw_pick(54.0, 0.0, x < 2.2250738585072014e-308);
  const double scaled = x * scale;
  unsigned long long bits;
  __builtin_memcpy(&bits, &scaled, 8);
  // The exponent is read through the low bits of 2^52: packed conversions of 64-bit integers are not everywhere.
  const unsigned long long moved = bits - 0x3fe6a09e667f3bcdull;
  const unsigned long long power = (moved >> 52) ^ 0x800ull;
  const unsigned long long carried = power | 0x4330000000000000ull;
  double e;
  __builtin_memcpy(&e, &carried, 8);
  const double k = (e - 4503599627372544.0) - shift;
  const unsigned long long mantissa = bits - (moved & 0xfff0000000000000ull);
  double m;
  __builtin_memcpy(&m, &mantissa, 8);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half = 0.5 * f * f;
  const double q = z * ({horner(LOG_DOUBLE, "z")});
  const double y = k * 6.93147180369123816490e-01 - ((half - (s * (half + q) + k * 1.90821492927058770002e-10)) - f);
  const double large = kw_pick(0.0, x, x <= 1.7976931348623157e+308);
  const double zero = kw_pick(-__builtin_inf(), 0.0, x == 0.0);
  const double negative = kw_pick(__builtin_nan(""), 0.0, x < 0.0);
  return ((y + large) + zero) + negative;
}}
"""


def erf_float() -> str:
    """kw_erf(float): about 2 ulp; needs kw_exp(float)."""
    return f"""static inline __attribute__((always_inline)) float kw_erf(float x) {{
  const float a = __builtin_fabsf(x);
  const float c = kw_pick(4.0f, a, a > 4.0f);
  const float z = x * x;
  const float near = ({horner(ERF_FLOAT, "z")}) * x + x;
  const float far = 1.0f - kw_exp({horner(ERF_TAIL, "c")});
  return kw_pick(near, kw_pick(-far, far, x < 0.0f), a < 1.0f);
}}
"""


def erfc_float() -> str:
    """kw_erfc(float): about 4 ulp, in the tail too; needs kw_exp(float)."""
    return f"""static inline __attribute__((always_inline)) float kw_erfc(float x) {{
  const float a = __builtin_fabsf(x);
  // Beyond it the result is subnormal, which costs a hundred times as much and is as good as zero.
  const float c = kw_pick(9.19f, a, a > 9.19f);
  const float t = (c - 2.0f) / (c + 2.0f);
  const float g = ({horner(ERFC_FLOAT, "t")}) / (1.0f + 2.0f * c);
  // x^2 = z^2 + d, z^2 exact.
  unsigned bits;
  __builtin_memcpy(&bits, &c, 4);
  bits &= 0xfffff000u;
  float z;
  __builtin_memcpy(&z, &bits, 4);
  const float d = (z - c) * (z + c);
  const float tail = (kw_exp(-z * z) * g) * (1.0f + d * (1.0f + d * (0.5f + d * (0.166666667f + d * 0.0416666667f))));
  const float y = kw_pick(0.0f, tail, a > 9.19f);
  return kw_pick(2.0f - y, y, x < 0.0f);
}}
"""


def erfc_double() -> str:
    """kw_erfc(double): about 4 ulp; needs kw_exp(double)."""
    return f"""static inline __attribute__((always_inline)) double kw_erfc(double x) {{
  const double a = __builtin_fabs(x);
  const double c = kw_pick(26.5, a, a > 26.5);
  const double t = (c - 3.75) / (c + 3.75);
  const double g = ({horner(ERFC_DOUBLE, "t")}) / (1.0 + 2.0 * c);
  unsigned long long bits;
  __builtin_memcpy(&bits, &c, 8);
  bits &= 0xffffffff00000000ull;
  double z;
  __builtin_memcpy(&z, &bits, 8);
  const double d = (z - c) * (z + c);
  const double rest = 1.0 + d * (1.0 + d * (0.5 + d * (0.16666666666666666 + d * (0.041666666666666664 + d * 0.008333333333333333))));
  const double tail = (kw_exp(-z * z) * g) * rest;
  const double y = kw_pick(0.0, tail, a > 26.5);
  return kw_pick(2.0 - y, y, x < 0.0);
}}
"""


def erf_double() -> str:
    """kw_erf(double): about 2 ulp; needs kw_erfc(double)."""
    return f"""static inline __attribute__((always_inline)) double kw_erf(double x) {{
  const double a = __builtin_fabs(x);
  const double z = x * x;
  const double near = ({horner(ERF_DOUBLE, "z")}) * x + x;
  const double far = 1.0 - kw_erfc(a);
  return kw_pick(near, kw_pick(-far, far, x < 0.0), z < 0.5);
}}
"""


def expm1_float() -> str:
    """kw_expm1(float): about 2 ulp; needs kw_exp(float)."""
    return f"""static inline __attribute__((always_inline)) float kw_expm1(float x) {{
  const float a = __builtin_fabsf(x);
  const float near = (({horner(EXP_FLOAT["6"], "x")}) * x) * x + x;
  const float far = kw_exp(x) - 1.0f;
  return kw_pick(near, far, a < 0.34f);
}}
"""


def log1p_float() -> str:
    """kw_log1p(float): about 2 ulp; needs kw_log(float)."""
    return """static inline __attribute__((always_inline)) float kw_log1p(float x) {
  const float u = 1.0f + x;
  const float c = kw_pick(x, 0.0f, x < 1e+9f);
  // What rounding 1 + x has lost.
  const float lost = c - ((1.0f + c) - 1.0f);
  return kw_log(u) + lost / kw_pick(u, 1.0f, x > -1.0f);
}
"""


def exp2_float() -> str:
    """kw_exp2(float): about 2 ulp; needs kw_exp(float)."""
    return """static inline __attribute__((always_inline)) float kw_exp2(float x) {
  const float c = kw_pick(-160.0f, kw_pick(140.0f, x, x > 140.0f), x < -160.0f);
  const float shifted = c + 12582912.0f;
  unsigned bits;
  __builtin_memcpy(&bits, &shifted, 4);
  const int e = (int)(bits - 0x4b400000u);
  const int half = e >> 1;
  const unsigned low = (unsigned)(half + 127) << 23, high = (unsigned)(e - half + 127) << 23;
  float a, b;
  __builtin_memcpy(&a, &low, 4);
  __builtin_memcpy(&b, &high, 4);
  return kw_exp((c - (shifted - 12582912.0f)) * 0.693147181f) * a * b;
}
"""


def scaled_log(name: str, factor: str) -> str:
    """kw_log2 and kw_log10 of float; need kw_log(float)."""
    return f"static inline __attribute__((always_inline)) float kw_{name}(float x) {{ return kw_log(x) * {factor}; }}\n"


def angle_float(name: str, turn: str) -> str:
    """kw_sin and kw_cos of float: about 1 ulp up to a million, an absolute error of 1e-7 up to a thousand times that."""
    return f"""static inline __attribute__((always_inline)) float kw_{name}(float x) {{
  const double wide = x;
  const double shifted = wide * 0.6366197723675814 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const float r = (float)(((wide - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21);
  unsigned long long bits;
  __builtin_memcpy(&bits, &shifted, 8);
  const unsigned quarter = (unsigned)bits + {turn};
  const float z = r * r;
  const float s = r + (r * z) * ({horner(SIN_FLOAT, "z")});
  const float c = (1.0f - 0.5f * z) + (z * z) * ({horner(COS_FLOAT, "z")});
  unsigned a, b;
  __builtin_memcpy(&a, &c, 4);
  __builtin_memcpy(&b, &s, 4);
  const unsigned odd = 0u - (quarter & 1u);
  const unsigned signed_bits = ((a & odd) | (b & ~odd)) ^ ((quarter & 2u) << 30);
  float value;
  __builtin_memcpy(&value, &signed_bits, 4);
  return value;
}}
"""


def pow_float() -> str:
    """kw_pow(float, float): about 1 ulp; needs kw_exp(double) and kw_log(double). An infinite exponent
    of 1 gives NaN."""
    return """static inline __attribute__((always_inline)) float kw_pow(float x, float y) {
  const float a = __builtin_fabsf(x);
  const double l = kw_log((double)a);
  const double product = (double)y * l;
  // 0 where y is.
  const float r = (float)kw_exp(kw_pick(product, 0.0, y != 0.0f));
  const float low = kw_pick(8388608.0f, y, y > 8388608.0f);
  const float c = kw_pick(low, -8388608.0f, low > -8388608.0f);
  const int whole = (int)c;
  // A negative base: NaN unless the exponent is whole, negative when it is odd.
  unsigned below;
  __builtin_memcpy(&below, &x, 4);
  below >>= 31;
  unsigned bits;
  __builtin_memcpy(&bits, &r, 4);
  bits ^= (below & (unsigned)whole & (unsigned)((float)whole == c)) << 31;
  float z;
  __builtin_memcpy(&z, &bits, 4);
  const float whole_only = kw_pick(0.0f, __builtin_nanf(""), (float)whole == c);
  const float inside = kw_pick(whole_only, 0.0f, a <= 3.40282347e+38f);
  return z + kw_pick(inside, 0.0f, x < 0.0f);
}
"""


def whole_float(name: str, text: str) -> str:
    """kw_floor, kw_ceil and kw_trunc of float: exact; `text` is made of |x| = a, its nearest whole number m, and x."""
    return f"""static inline __attribute__((always_inline)) float kw_{name}(float x) {{
  const float a = __builtin_fabsf(x);
  const float m = (a + 8388608.0f) - 8388608.0f;
  const float s = kw_pick(-m, m, x < 0.0f);
  const float y = {text};
  return kw_pick(y, x, a < 8388608.0f);
}}
"""


def power(exponent: int, kind: str) -> str:
    """kw_pow<n> of float or double: n >= 2 by repeated squaring."""
    lines, names, value = [], [], "x"
    for bit in range(exponent.bit_length()):
        if exponent >> bit & 1:
            names.append(value)
        if exponent >> (bit + 1):
            lines.append(f"  const {kind} x{2 << bit} = {value} * {value};")
            value = f"x{2 << bit}"
    body = "\n".join(lines)
    return f"static inline __attribute__((always_inline)) {kind} kw_pow{exponent}({kind} x) {{\n{body}\n  return {' * '.join(names)};\n}}\n"
