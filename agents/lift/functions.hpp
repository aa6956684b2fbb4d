// Elementary functions that a compiler can inline and vectorise without -ffast-math. The recipe vector_exp copies those that a kernel needs,
// each with the functions that it calls, cut by name; so every definition begins with `static inline` and ends with a brace on a line of its
// own, and what explains it stands in front of it, for comments inside are paid for with each prompt.
//
// Range reduction with a split ln 2, a minimax polynomial (iteratively reweighted least squares on Chebyshev nodes, relative error, or a
// Chebyshev interpolant), and selects instead of branches. Special values are those of <cmath>: exp(-inf) = 0, exp(large) = inf, NaN stays
// NaN, subnormal results included. erfc is written as exp(-x^2) g(t) / (1 + 2 x) with t = (x - k) / (x + k), k = 2 and 3.75, after Shepherd
// and Laframboise (1981), https://doi.org/10.1090/S0025-5718-1981-0595058-X; angles are reduced by a split pi / 2 after Cody and Waite (1980).

// x where `first`, else y, on the bits. GCC makes a branch of a select where it sees the condition again, or a constant on one
// side, and a loop with branches stays scalar.
static inline __attribute__((always_inline)) float kw_pick(float x, float y, bool first) {
  const unsigned mask = (unsigned)0 - (unsigned)first;
  unsigned a, b;
  __builtin_memcpy(&a, &x, 4);
  __builtin_memcpy(&b, &y, 4);
  a = (a & mask) | (b & ~mask);
  float z;
  __builtin_memcpy(&z, &a, 4);
  return z;
}

static inline __attribute__((always_inline)) double kw_pick(double x, double y, bool first) {
  const unsigned long long mask = (unsigned long long)0 - (unsigned long long)first;
  unsigned long long a, b;
  __builtin_memcpy(&a, &x, 8);
  __builtin_memcpy(&b, &y, 8);
  a = (a & mask) | (b & ~mask);
  double z;
  __builtin_memcpy(&z, &a, 8);
  return z;
}

// About 1 ulp at degree 6 and 7, 2 ulp at 5. The clamp is on the bits, since one by comparisons is folded apart and what is left is no
// vector loop. The rounding is the carry into the last bits of 1.5 * 2^23. 2^n is two factors, so that neither overflows. The polynomial is
// of exp(r) - 1 - r over r^2, |r| <= ln(2)/2; its degree is a knob of the recipe.
constexpr int kw_vector_exp_DEGREE_1 = 6;
static inline __attribute__((always_inline)) float kw_exp(float x) {
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
  const float q = kw_vector_exp_DEGREE_1 == 5 ? (((8.312503349e-03f) * r + 4.189033461e-02f) * r + 1.666711538e-01f) * r + 4.999923028e-01f
                  : kw_vector_exp_DEGREE_1 == 7 ? (((((1.979030288e-04f) * r + 1.394470420e-03f) * r + 8.333497336e-03f) * r + 4.166629435e-02f) * r + 1.666666587e-01f) * r + 5.000000068e-01f
                  : ((((1.381453789e-03f) * r + 8.368745320e-03f) * r + 4.166839083e-02f) * r + 1.666652040e-01f) * r + 4.999999343e-01f;
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
}

static inline __attribute__((always_inline)) double kw_exp(double x) {
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
  const double q = (((((((((2.42632106251765369e-08) * r + 2.76212372623541119e-07) * r + 2.75599608520206357e-06) * r + 2.48015194470976320e-05) * r + 1.98412667633391954e-04) * r + 1.38888889174529850e-03) * r + 8.33333333481489462e-03) * r + 4.16666666666273625e-02) * r + 1.66666666666642399e-01) * r + 5.00000000000000111e-01;
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
}

// Polynomial of log(1 + f) - f + f^2/2 over f^3, 1 + f in [sqrt(1/2), sqrt(2)].
static inline __attribute__((always_inline)) float kw_log(float x) {
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
  const float q = ((((((((6.747691804e-02f) * f + -1.167750532e-01f) * f + 1.188870905e-01f) * f + -1.240534258e-01f) * f + 1.421945162e-01f) * f + -1.666800500e-01f) * f + 2.000212353e-01f) * f + -2.500000952e-01f) * f + 3.333331254e-01f;
  const float small = (f * f * f) * q - 0.5f * (f * f);
  // ln 2 in two parts, the first exact in k * part; what is special is added, so that no branch can skip the polynomial.
  const float y = k * 0.693359375f + (f + (small - k * 2.12194440e-04f));
  const float large = kw_pick(0.0f, x, x <= 3.40282347e+38f);
  const float zero = kw_pick(-__builtin_inff(), 0.0f, x == 0.0f);
  const float negative = kw_pick(__builtin_nanf(""), 0.0f, x < 0.0f);
  return ((y + large) + zero) + negative;
}

// About 1 ulp. Polynomial of (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, |s| <= 0.1716.
static inline __attribute__((always_inline)) double kw_log(double x) {
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
  const double q = z * (((((((1.46170375487916504e-01) * z + 1.53316740301678606e-01) * z + 1.81828905566956023e-01) * z + 2.22222111151441609e-01) * z + 2.85714286260958905e-01) * z + 3.99999999998992384e-01) * z + 6.66666666666666963e-01);
  const double y = k * 6.93147180369123816490e-01 - ((half - (s * (half + q) + k * 1.90821492927058770002e-10)) - f);
  const double large = kw_pick(0.0, x, x <= 1.7976931348623157e+308);
  const double zero = kw_pick(-__builtin_inf(), 0.0, x == 0.0);
  const double negative = kw_pick(__builtin_nan(""), 0.0, x < 0.0);
  return ((y + large) + zero) + negative;
}

// About 2 ulp. Polynomial of tanh(x)/x - 1 over x^2 in x^2, |x| <= 0.625.
static inline __attribute__((always_inline)) float kw_tanh(float x) {
  const float a = __builtin_fabsf(x);
  const float z = x * x;
  const float q = ((((-5.697387129e-03f) * z + 2.063254943e-02f) * z + -5.373779912e-02f) * z + 1.333142040e-01f) * z + -3.333328119e-01f;
  const float near = (q * z) * x + x;
  const float far = 1.0f - 2.0f / (kw_exp(2.0f * a) + 1.0f);
  return kw_pick(near, kw_pick(-far, far, x < 0.0f), a < 0.625f);
}

// Within 1 ulp. The compiler keeps a branch to the library beside its own instruction, for errno's sake.
static inline __attribute__((always_inline)) float kw_sqrt(float x) {
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

// Within 1 ulp.
static inline __attribute__((always_inline)) double kw_sqrt(double x) {
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

// About 2 ulp. erf(x)/x - 1 in x^2 for |x| < 1, log(erfc(x)) for 1 <= x <= 4.
static inline __attribute__((always_inline)) float kw_erf(float x) {
  const float a = __builtin_fabsf(x);
  const float c = kw_pick(4.0f, a, a > 4.0f);
  const float z = x * x;
  const float near = (((((((7.875874871e-05f) * z + -8.016864303e-04f) * z + 5.189087242e-03f) * z + -2.685421146e-02f) * z + 1.128359437e-01f) * z + -3.761262596e-01f) * z + 1.283791661e-01f) * x + x;
  const float far = 1.0f - kw_exp(((((((((1.637151399e-06f) * c + -4.605804133e-05f) * c + 5.968056503e-04f) * c + -4.759596195e-03f) * c + 2.642113529e-02f) * c + -1.100800857e-01f) * c + -6.318260431e-01f) * c + -1.130233407e+00f) * c + 3.201380605e-04f);
  return kw_pick(near, kw_pick(-far, far, x < 0.0f), a < 1.0f);
}

// About 4 ulp, in the tail too.
static inline __attribute__((always_inline)) float kw_erfc(float x) {
  const float a = __builtin_fabsf(x);
  // Beyond it the result is subnormal, which costs a hundred times as much and is as good as zero.
  const float c = kw_pick(9.19f, a, a > 9.19f);
  const float t = (c - 2.0f) / (c + 2.0f);
  const float g = (((((((((((3.292978727e-05f) * t + -3.500619787e-04f) * t + -1.249076682e-03f) * t + 1.262663398e-03f) * t + 8.631817997e-03f) * t + -8.042481728e-03f) * t + -5.420320854e-02f) * t + 1.640530974e-01f) * t + -1.660315245e-01f) * t + -9.276390076e-02f) * t + 1.276978374e+00f) / (1.0f + 2.0f * c);
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
}

// About 4 ulp.
static inline __attribute__((always_inline)) double kw_erfc(double x) {
  const double a = __builtin_fabs(x);
  const double c = kw_pick(26.5, a, a > 26.5);
  const double t = (c - 3.75) / (c + 3.75);
  const double g = (((((((((((((((((((((((-2.41082153654223324e-09) * t + -8.78212573480352069e-10) * t + 3.28508355623331609e-08) * t + 1.59963352155737073e-08) * t + -2.52614652677155061e-07) * t + -4.81583962167284879e-08) * t + 1.74811904683919651e-06) * t + -9.80166675585857833e-07) * t + -1.14429909268054376e-05) * t + 2.23872596382301332e-05) * t + 5.16489134695998653e-05) * t + -2.90154965295709238e-04) * t + 2.93713666310886157e-04) * t + 1.75562601715200392e-03) * t + -9.74657955343187325e-03) * t + 2.83622774004577242e-02) * t + -5.86933985903094133e-02) * t + 9.23043211615311582e-02) * t + -1.08803930141712357e-01) * t + 8.22767384901120363e-02) * t + 3.58541548546377920e-03) * t + -1.40240598585546689e-01) * t + 1.23751263083782748e+00) / (1.0 + 2.0 * c);
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
}

// About 2 ulp.
static inline __attribute__((always_inline)) double kw_erf(double x) {
  const double a = __builtin_fabs(x);
  const double z = x * x;
  const double near = ((((((((((-1.30712033715269349e-07) * z + 1.61257566522375471e-06) * z + -1.49062505780865168e-05) * z + 1.20546512408215299e-04) * z + -8.54831213386209759e-04) * z + 5.22397742698529812e-03) * z + -2.68661706299139977e-02) * z + 1.12837916708958028e-01) * z + -3.76126389031828545e-01) * z + 1.28379167095512559e-01) * x + x;
  const double far = 1.0 - kw_erfc(a);
  return kw_pick(near, kw_pick(-far, far, x < 0.0), z < 0.5);
}

// About 2 ulp.
static inline __attribute__((always_inline)) float kw_expm1(float x) {
  const float a = __builtin_fabsf(x);
  const float near = ((((((1.381453789e-03f) * x + 8.368745320e-03f) * x + 4.166839083e-02f) * x + 1.666652040e-01f) * x + 4.999999343e-01f) * x) * x + x;
  const float far = kw_exp(x) - 1.0f;
  return kw_pick(near, far, a < 0.34f);
}

// About 2 ulp.
static inline __attribute__((always_inline)) float kw_log1p(float x) {
  const float u = 1.0f + x;
  const float c = kw_pick(x, 0.0f, x < 1e+9f);
  // What rounding 1 + x has lost.
  const float lost = c - ((1.0f + c) - 1.0f);
  return kw_log(u) + lost / kw_pick(u, 1.0f, x > -1.0f);
}

static inline __attribute__((always_inline)) float kw_exp2(float x) {
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

static inline __attribute__((always_inline)) float kw_log2(float x) { return kw_log(x) * 1.44269504f; }

static inline __attribute__((always_inline)) float kw_log10(float x) { return kw_log(x) * 0.434294482f; }

// About 1 ulp for |x| below 1e6. Polynomials of (sin(r)/r - 1)/r^2 and (cos(r) - 1 + r^2/2)/r^4 in r^2, |r| <= pi/4.
static inline __attribute__((always_inline)) float kw_sin(float x) {
  const double wide = x;
  const double shifted = wide * 0.6366197723675814 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const float r = (float)(((wide - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21);
  unsigned long long bits;
  __builtin_memcpy(&bits, &shifted, 8);
  const unsigned quarter = (unsigned)bits + 0u;
  const float z = r * r;
  const float s = r + (r * z) * (((-1.958789071e-04f) * z + 8.332747966e-03f) * z + -1.666666418e-01f);
  const float c = (1.0f - 0.5f * z) + (z * z) * (((2.454794230e-05f) * z + -1.388830249e-03f) * z + 4.166666418e-02f);
  unsigned a, b;
  __builtin_memcpy(&a, &c, 4);
  __builtin_memcpy(&b, &s, 4);
  const unsigned odd = 0u - (quarter & 1u);
  const unsigned signed_bits = ((a & odd) | (b & ~odd)) ^ ((quarter & 2u) << 30);
  float value;
  __builtin_memcpy(&value, &signed_bits, 4);
  return value;
}

static inline __attribute__((always_inline)) float kw_cos(float x) {
  const double wide = x;
  const double shifted = wide * 0.6366197723675814 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const float r = (float)(((wide - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21);
  unsigned long long bits;
  __builtin_memcpy(&bits, &shifted, 8);
  const unsigned quarter = (unsigned)bits + 1u;
  const float z = r * r;
  const float s = r + (r * z) * (((-1.958789071e-04f) * z + 8.332747966e-03f) * z + -1.666666418e-01f);
  const float c = (1.0f - 0.5f * z) + (z * z) * (((2.454794230e-05f) * z + -1.388830249e-03f) * z + 4.166666418e-02f);
  unsigned a, b;
  __builtin_memcpy(&a, &c, 4);
  __builtin_memcpy(&b, &s, 4);
  const unsigned odd = 0u - (quarter & 1u);
  const unsigned signed_bits = ((a & odd) | (b & ~odd)) ^ ((quarter & 2u) << 30);
  float value;
  __builtin_memcpy(&value, &signed_bits, 4);
  return value;
}

// About 1 ulp. An infinite exponent of 1 gives NaN.
static inline __attribute__((always_inline)) float kw_pow(float x, float y) {
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

// Exact.
static inline __attribute__((always_inline)) float kw_floor(float x) {
  const float a = __builtin_fabsf(x);
  const float m = (a + 8388608.0f) - 8388608.0f;
  const float s = kw_pick(-m, m, x < 0.0f);
  const float y = s - kw_pick(1.0f, 0.0f, s > x);
  return kw_pick(y, x, a < 8388608.0f);
}

static inline __attribute__((always_inline)) float kw_ceil(float x) {
  const float a = __builtin_fabsf(x);
  const float m = (a + 8388608.0f) - 8388608.0f;
  const float s = kw_pick(-m, m, x < 0.0f);
  const float y = s + kw_pick(1.0f, 0.0f, s < x);
  return kw_pick(y, x, a < 8388608.0f);
}

static inline __attribute__((always_inline)) float kw_trunc(float x) {
  const float a = __builtin_fabsf(x);
  const float m = (a + 8388608.0f) - 8388608.0f;
  const float s = kw_pick(-m, m, x < 0.0f);
  const float y = s - kw_pick(kw_pick(-1.0f, 1.0f, x < 0.0f), 0.0f, m > a);
  return kw_pick(y, x, a < 8388608.0f);
}
