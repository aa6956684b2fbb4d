// What Inductor's C++ uses of PyTorch's headers, in the compiler's own vectors: from it a lifted source takes the paragraphs whose names it
// uses (a paragraph ends at an empty line; of struct Vec and struct Mask, the members of one line that it uses). LANES: bytes of a vector.

namespace c10 {
template <typename T, typename U> inline T convert(U x) { return static_cast<T>(x); }
}

namespace c10 {
inline int64_t div_floor_integer(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
}

template <typename T> inline T max_propagate_nan(T a, T b) { return a != a ? a : a > b ? a : b; }

template <typename T> inline T min_propagate_nan(T a, T b) { return a != a ? a : a < b ? a : b; }

template <int bytes> struct Bits { typedef int8_t type; };
template <> struct Bits<2> { typedef int16_t type; };
template <> struct Bits<4> { typedef int32_t type; };
template <> struct Bits<8> { typedef int64_t type; };
template <typename T, int L> struct Native { typedef T type __attribute__((vector_size(sizeof(T) * L))); };

// A mask of lanes, all bits set where true.
template <typename T, int L> struct Vec;
template <int L> struct Mask {
  typedef typename Native<int32_t, L>::type V;
  typedef typename Native<uint8_t, L>::type B;
  V v;
  Mask() = default;
  Mask(V x) : v(x) {}
  Mask(bool x) : v(V{} - int32_t(x)) {}
  template <typename T, int N> Mask cast() const { return *this; }
  template <typename T, int N> auto to() const { return Vec<T, L>(__builtin_convertvector(-v, typename Vec<T, L>::V)); }
  template <typename T> static Mask from(T x) { return Mask(bool(x)); }
  static Mask from(const bool* p, int64_t n = L) { return Mask(__builtin_convertvector(Vec<uint8_t, L>::loadu(p, n).v != 0, V)); }
  template <typename T, int N> Vec<T, L> loadu(const T* p, int64_t n = L) const { if (n >= L && all_masked()) return Vec<T, L>::loadu(p); T a[L]; int32_t m[L]; __builtin_memcpy(m, &v, sizeof m); for (int i = 0; i < L; ++i) a[i] = m[i] && i < n ? p[i] : T(0); return Vec<T, L>::loadu(a); }
  static Mask loadu(const bool* p, int64_t n = L) { return from(p, n); }
  void store(bool* p, int64_t n = L) const { Vec<uint8_t, L>(__builtin_convertvector(-v, B)).store(p, n); }
  static Mask blendv(Mask a, Mask b, Mask m) { return Mask((b.v & m.v) | (a.v & ~m.v)); }
  static Mask set(Mask a, Mask b, int64_t n) { return blendv(a, b, Vec<int32_t, L>::arange(0, 1) < Vec<int32_t, L>(int32_t(n))); }
  template <typename T, int N> static Vec<T, L> blendv(Vec<T, L> a, Vec<T, L> b, Mask m) { return Vec<T, L>::blendv(a, b, m); }
  template <typename T> static Vec<T, L> blendv(Vec<T, L> a, Vec<T, L> b, Mask m) { return Vec<T, L>::blendv(a, b, m); }
  bool is_masked(int i) const { return v[i]; }
  bool all_zero() const { int32_t m[L], found = 0; __builtin_memcpy(m, &v, sizeof m); for (int i = 0; i < L; ++i) found |= m[i]; return found == 0; }
  bool all_masked() const { int32_t m[L], found = -1; __builtin_memcpy(m, &v, sizeof m); for (int i = 0; i < L; ++i) found &= m[i]; return found != 0; }
  friend Mask operator&(Mask a, Mask b) { return Mask(a.v & b.v); }
  friend Mask operator|(Mask a, Mask b) { return Mask(a.v | b.v); }
  friend Mask operator^(Mask a, Mask b) { return Mask(a.v ^ b.v); }
  Mask operator~() const { return Mask(~v); }
};

template <typename T, int L> struct Vec {
  typedef typename Native<T, L>::type V;
  typedef typename Native<typename Bits<sizeof(T)>::type, L>::type I;
  V v;
  Vec() : v{} {}
  Vec(V x) : v(x) {}
  Vec(T x) : v(V{} + x) {}
  static constexpr int size() { return L; }
  static Vec loadu(const void* p) { Vec r; __builtin_memcpy(&r.v, p, sizeof(V)); return r; }
  static Vec loadu(const void* p, int64_t n) { Vec r; __builtin_memcpy(&r.v, p, (n < L ? n : L) * sizeof(T)); return r; }
  void store(void* p) const { __builtin_memcpy(p, &v, sizeof(V)); }
  void store(void* p, int64_t n) const { __builtin_memcpy(p, &v, (n < L ? n : L) * sizeof(T)); }
  template <typename S, typename D> static Vec arange(S base, D step) { Vec r; for (int i = 0; i < L; ++i) r.v[i] = T(base + step * i); return r; }
  static Vec blendv(Vec a, Vec b, Mask<L> m) { return Vec(__builtin_convertvector(m.v, I) ? b.v : a.v); }
  static Vec set(Vec a, Vec b, int64_t n) { return blendv(a, b, Vec<int32_t, L>::arange(0, 1) < Vec<int32_t, L>(int32_t(n))); }
  T operator[](int i) const { return v[i]; }
  static Mask<L> mask(I x) { return Mask<L>(__builtin_convertvector(x, typename Mask<L>::V)); }
  template <int from, int... i> Vec<T, L / 2> half(std::integer_sequence<int, i...>) const { return Vec<T, L / 2>(__builtin_shufflevector(v, v, (from + i)...)); }
  template <int... i> static Vec joined(Vec<T, L / 2> a, Vec<T, L / 2> b, std::integer_sequence<int, i...>) { return Vec(__builtin_shufflevector(a.v, b.v, i...)); }
  template <typename F, typename... Y> Vec each(F f, Y... y) const {
    // Loops are compiled for vectors of 32 bytes, and through memory a wider one would wait for both halves.
    if constexpr (sizeof(V) > 32) {
      constexpr std::make_integer_sequence<int, L / 2> s{};
      return joined(half<0>(s).each(f, y.template half<0>(s)...), half<L / 2>(s).each(f, y.template half<L / 2>(s)...), std::make_integer_sequence<int, L>{});
    } else {
      return lanes(f, y...);
    }
  }
  template <typename F> Vec lanes(F f) const { T a[L]; store(a); _Pragma("omp simd") for (int i = 0; i < L; ++i) a[i] = f(a[i]); return loadu(a); }
  template <typename F> Vec lanes(F f, Vec y) const { T a[L], b[L]; store(a); y.store(b); _Pragma("omp simd") for (int i = 0; i < L; ++i) a[i] = f(a[i], b[i]); return loadu(a); }
  Vec exp() const { return each([](T x) { return kw_exp(x); }); }
  Vec exp_u20() const { return each([](T x) { return kw_exp(x); }); }
  Vec fexp_u20() const { return each([](T x) { return kw_exp(x); }); }
  Vec exp2() const { return each([](T x) { return kw_exp2(x); }); }
  Vec expm1() const { return each([](T x) { return kw_expm1(x); }); }
  Vec log() const { return each([](T x) { return kw_log(x); }); }
  Vec log1p() const { return each([](T x) { return kw_log1p(x); }); }
  Vec log2() const { return each([](T x) { return kw_log2(x); }); }
  Vec log10() const { return each([](T x) { return kw_log10(x); }); }
  Vec tanh() const { return each([](T x) { return kw_tanh(x); }); }
  Vec erf() const { return each([](T x) { return kw_erf(x); }); }
  Vec erfc() const { return each([](T x) { return kw_erfc(x); }); }
  Vec sin() const { return each([](T x) { return kw_sin(x); }); }
  Vec cos() const { return each([](T x) { return kw_cos(x); }); }
  Vec pow(Vec y) const { return each([](T x, T z) { return kw_pow(x, z); }, y); }
  Vec floor() const { return each([](T x) { return kw_floor(x); }); }
  Vec ceil() const { return each([](T x) { return kw_ceil(x); }); }
  Vec trunc() const { return each([](T x) { return kw_trunc(x); }); }
  Vec round() const { return each([](T x) { return std::nearbyint(x); }); }
  Vec fmod(Vec y) const { return each([](T x, T z) { return std::fmod(x, z); }, y); }
  Vec copysign(Vec y) const { return each([](T x, T z) { return std::copysign(x, z); }, y); }
  Vec sqrt() const { return each([](T x) { return kw_sqrt(x); }); }
  Vec rsqrt() const { return Vec(T(1)) / sqrt(); }
  Vec reciprocal() const { return Vec(T(1)) / *this; }
  Vec neg() const { return Vec(-v); }
  Vec abs() const { return each([](T x) { return std::abs(x); }); }
  Mask<L> isnan() const { return *this != *this; }
  friend Vec operator+(Vec a, Vec b) { return Vec(a.v + b.v); }
  friend Vec operator-(Vec a, Vec b) { return Vec(a.v - b.v); }
  friend Vec operator*(Vec a, Vec b) { return Vec(a.v * b.v); }
  friend Vec operator/(Vec a, Vec b) { return Vec(a.v / b.v); }
  friend Vec operator&(Vec a, Vec b) { return Vec(a.v & b.v); }
  friend Vec operator|(Vec a, Vec b) { return Vec(a.v | b.v); }
  friend Vec operator^(Vec a, Vec b) { return Vec(a.v ^ b.v); }
  friend Vec operator<<(Vec a, Vec b) { return Vec(a.v << b.v); }
  friend Vec operator>>(Vec a, Vec b) { return Vec(a.v >> b.v); }
  Vec operator-() const { return Vec(-v); }
  Vec operator~() const { return Vec(~v); }
  friend Mask<L> operator<(Vec a, Vec b) { return mask(a.v < b.v); }
  friend Mask<L> operator<=(Vec a, Vec b) { return mask(a.v <= b.v); }
  friend Mask<L> operator>(Vec a, Vec b) { return mask(a.v > b.v); }
  friend Mask<L> operator>=(Vec a, Vec b) { return mask(a.v >= b.v); }
  friend Mask<L> operator==(Vec a, Vec b) { return mask(a.v == b.v); }
  friend Mask<L> operator!=(Vec a, Vec b) { return mask(a.v != b.v); }
};

namespace at { namespace vec {
template <typename T> using Vectorized = Vec<T, LANES / sizeof(T)>;
template <typename T, int N> using VectorizedN = Vec<T, N * LANES / sizeof(T)>;
template <typename T, int N> using VecMask = Mask<N * LANES / sizeof(T)>;
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> maximum(Vec<T, L> a, Vec<T, L> b) { return Vec<T, L>((a.v > b.v) | (a.v != a.v) ? a.v : b.v); }
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> minimum(Vec<T, L> a, Vec<T, L> b) { return Vec<T, L>((a.v < b.v) | (a.v != a.v) ? a.v : b.v); }
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> clamp_min(Vec<T, L> a, Vec<T, L> b) { return Vec<T, L>(a.v < b.v ? b.v : a.v); }
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> clamp_max(Vec<T, L> a, Vec<T, L> b) { return Vec<T, L>(a.v > b.v ? b.v : a.v); }
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> clamp(Vec<T, L> a, Vec<T, L> b, Vec<T, L> c) { return clamp_max(clamp_min(a, b), c); }
} }

namespace at { namespace vec {
template <typename T, int L> inline Vec<T, L> fmadd(Vec<T, L> a, Vec<T, L> b, Vec<T, L> c) { return a * b + c; }
} }

namespace at { namespace vec {
template <typename T, int N, typename S, int M, int L> inline Vec<T, N * LANES / sizeof(T)> convert(Vec<S, L> x) {
  typedef Vec<T, N * LANES / sizeof(T)> R;
  typename Vec<S, R::size()>::V same;
  __builtin_memcpy(&same, &x.v, sizeof same < sizeof x.v ? sizeof same : sizeof x.v);
  return R(__builtin_convertvector(same, typename R::V));
}
template <typename T, typename S, int L> inline Vec<T, L> convert(Vec<S, L> x) { return Vec<T, L>(__builtin_convertvector(x.v, typename Vec<T, L>::V)); }
} }

template <typename T, int L> inline Vec<T, L> shuffle_down(Vec<T, L> x, int n) {
  typename Vec<T, L>::I place;
  for (int i = 0; i < L; ++i) place[i] = (i + n) % L;
#if defined(__clang__)
  Vec<T, L> r;
  for (int i = 0; i < L; ++i) r.v[i] = x.v[(i + n) % L];
  return r;
#else
  return Vec<T, L>(__builtin_shuffle(x.v, place));
#endif
}

namespace at { namespace vec {
template <typename T, int N, typename F, int L> inline T vec_reduce_all(F f, Vec<T, L> all) {
  typedef Vectorized<T> P;
  T a[L];
  all.store(a);
  P x = P::loadu(a);
  for (int i = P::size(); i < L; i += P::size()) {
    P y = P::loadu(a + i);
    x = f(x, y);
  }
  _Pragma("GCC unroll 6") for (int n = P::size() / 2; n; n /= 2) {
    P y = shuffle_down(x, n);
    x = f(x, y);
  }
  return x[0];
}
} }

template <typename T> inline T sum_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, a + b, n); }

template <typename T> inline T prod_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, a * b, n); }

template <typename T> inline T max_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, at::vec::maximum(a, b), n); }

template <typename T> inline T min_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, at::vec::minimum(a, b), n); }

template <typename T> inline T any_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, a | b, n); }

template <typename T> inline T xor_sum_masked_reduce(const T& a, const T& b, int64_t n) { return T::set(a, a ^ b, n); }

template <typename T> inline T floor_divide_integral(T a, T b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
template <typename T, int L> inline Vec<T, L> floor_divide_integral(Vec<T, L> a, Vec<T, L> b) { return a.each([](T x, T y) { return floor_divide_integral(x, y); }, b); }

template <typename T> inline T remainder_integral(T a, T b) { return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }
template <typename T, int L> inline Vec<T, L> remainder_integral(Vec<T, L> a, Vec<T, L> b) { return a.each([](T x, T y) { return remainder_integral(x, y); }, b); }

// Means and sums of squares, joined as Welford and Chan have it; long rows in a cascade.
template <typename T> struct Scalar { typedef T type; };
template <typename T, int L> struct Scalar<Vec<T, L>> { typedef T type; };
template <typename T, uint64_t C> struct Reciprocals {
  T of[C];
  constexpr Reciprocals() : of() { for (uint64_t i = 0; i < C; ++i) of[i] = T(1.0 / double(i + 1)); }
};
template <typename T> struct Welford { T mean = T(0), m2 = T(0), weight = T(0); uint64_t index = 0; };
template <typename T, uint64_t C> struct WelfordHelper {
  static constexpr Reciprocals<typename Scalar<T>::type, C> recips{};
  std::vector<Welford<T>> stack;
  uint64_t depth = 0, chunks = 0;
  WelfordHelper(uint64_t n) { for (uint64_t m = (n + C - 1) / C; m > 1; m = (m + 1) / 2) ++depth; stack.assign(depth, Welford<T>()); }
};
template <typename T> inline T share(T part, T whole) { return whole == T(0) ? T(0) : part / whole; }
template <typename T, int L> inline Vec<T, L> share(Vec<T, L> part, Vec<T, L> whole) { return Vec<T, L>::blendv(part / whole, Vec<T, L>(T(0)), whole == Vec<T, L>(T(0))); }
template <typename T> inline Welford<T> welford_combine(const Welford<T>& a, const Welford<T>& b) {
  if (a.index == 0) return b;
  if (b.index == 0) return a;
  const T delta = b.mean - a.mean, weight = a.weight + b.weight, part = share(b.weight, weight);
  return Welford<T>{a.mean + delta * part, a.m2 + b.m2 + delta * delta * a.weight * part, weight, a.index + b.index};
}
template <typename T, uint64_t C> inline Welford<T> welford_combine(Welford<T>& acc, T& data, WelfordHelper<T, C>* w) {
  if (w->depth > 0 && acc.index == C) {
    w->stack[0] = welford_combine(w->stack[0], acc);
    acc = Welford<T>();
    uint64_t mask = ++w->chunks;
    for (uint64_t j = 1; j < w->depth && (mask & 1) == 0; ++j, mask >>= 1) {
      w->stack[j] = welford_combine(w->stack[j], w->stack[j - 1]);
      w->stack[j - 1] = Welford<T>();
    }
  }
  const T delta = data - acc.mean, weight = acc.weight + T(1);
  const T mean = acc.mean + (acc.index < C ? delta * T(w->recips.of[acc.index]) : delta / weight);
  return Welford<T>{mean, acc.m2 + delta * (data - mean), weight, acc.index + 1};
}
template <typename T, uint64_t C> inline Welford<T> welford_combine(Welford<T>& acc, T& data, int64_t n, WelfordHelper<T, C>* w) {
  const Welford<T> next = welford_combine(acc, data, w);
  return Welford<T>{T::set(acc.mean, next.mean, n), T::set(acc.m2, next.m2, n), T::set(acc.weight, next.weight, n), next.index};
}
template <typename T, uint64_t C> inline Welford<T> welford_combine(Welford<T>& acc, WelfordHelper<T, C>* w) {
  for (uint64_t i = 0; i < w->depth; ++i) acc = welford_combine(acc, w->stack[i]);
  return acc;
}
template <typename T> inline Welford<T> welford_combine(Welford<T>& acc, T data) {
  const T delta = data - acc.mean, weight = acc.weight + T(1), mean = acc.mean + delta / weight;
  return Welford<T>{mean, acc.m2 + delta * (data - mean), weight, acc.index + 1};
}
template <typename T, int L> inline Welford<T> welford_vec_reduce_all(Welford<Vec<T, L>> acc) {
  if (acc.index == 0) return Welford<T>();
  for (int n = L / 2; n; n /= 2) acc = welford_combine(acc, Welford<Vec<T, L>>{shuffle_down(acc.mean, n), shuffle_down(acc.m2, n), shuffle_down(acc.weight, n), acc.index});
  return Welford<T>{acc.mean[0], acc.m2[0], acc.weight[0], uint64_t(acc.weight[0])};
}

// Sums of long rows in a cascade.
template <typename T, uint64_t C> struct CascadeSumHelper {
  std::vector<T> stack;
  uint64_t depth = 0, chunks = 0, index = 0;
  CascadeSumHelper(uint64_t n) { for (uint64_t m = (n + C - 1) / C; m > 1; m = (m + 1) / 2) ++depth; stack.assign(depth ? depth : 1, T(0)); }
};
template <typename T, uint64_t C> inline T cascade_next(CascadeSumHelper<T, C>* c) {
  if (c->depth > 0 && ++c->index == C) {
    uint64_t mask = ++c->chunks, j = 1;
    for (c->index = 0; j < c->depth && (mask & 1) == 0; ++j, mask >>= 1) {
      c->stack[j] = c->stack[j] + c->stack[j - 1];
      c->stack[j - 1] = T(0);
    }
    return c->stack[j - 1];
  }
  return c->stack[0];
}
template <typename T, uint64_t C> inline T cascade_sum_combine(T& data, CascadeSumHelper<T, C>* c) {
  c->stack[0] = c->stack[0] + data;
  return cascade_next(c);
}
template <typename T, uint64_t C> inline T cascade_sum_combine(T& data, int64_t n, CascadeSumHelper<T, C>* c) {
  c->stack[0] = T::set(c->stack[0], c->stack[0] + data, n);
  return cascade_next(c);
}
template <typename T, uint64_t C> inline T cascade_sum_final(CascadeSumHelper<T, C>* c) {
  T sum = c->stack[0];
  for (uint64_t i = 1; i < c->depth; ++i) sum = sum + c->stack[i];
  return sum;
}

// The place of the largest or smallest, the first among equals; NaN before all.
template <typename T> struct IndexValue { int64_t index; T value; };
template <typename T, int N, int M> struct IndexValueVec {
  at::vec::VectorizedN<T, N> value;
  at::vec::VectorizedN<int64_t, M> index;
  IndexValueVec() = default;
  IndexValueVec(T x) : value(x) {}
};
template <bool most, typename T> inline IndexValue<T>& place_combine(IndexValue<T>& a, T value, int64_t index) {
  const bool nan = a.value != a.value, other = value != value;
  const bool kept = nan ? !other || a.index < index : a.value == value ? a.index < index : most ? a.value > value : a.value < value;
  if (!kept) a = IndexValue<T>{index, value};
  return a;
}
template <bool most, typename T, int N, int M> inline void place_combine(IndexValueVec<T, N, M>& a, at::vec::VectorizedN<T, N> value, at::vec::VectorizedN<int64_t, M> index, int64_t n) {
  const auto both = (a.value == value) | (a.value.isnan() & value.isnan());
  const auto better = most ? a.value > value : a.value < value;
  const auto kept = (both & (a.index < index)) | (~both & (better | a.value.isnan()));
  const auto within = at::vec::VectorizedN<int64_t, M>::arange(0, 1) < at::vec::VectorizedN<int64_t, M>(n);
  a.value = decltype(a.value)::blendv(a.value, value, ~kept & within);
  a.index = decltype(a.index)::blendv(a.index, index, ~kept & within);
}
template <typename T> inline IndexValue<T>& argmax_combine(IndexValue<T>& a, T value, int64_t index) { return place_combine<true>(a, value, index); }
template <typename T> inline IndexValue<T>& argmin_combine(IndexValue<T>& a, T value, int64_t index) { return place_combine<false>(a, value, index); }
template <typename T> inline IndexValue<T>& argmax_combine(IndexValue<T>& a, const IndexValue<T>& b) { return place_combine<true>(a, b.value, b.index); }
template <typename T> inline IndexValue<T>& argmin_combine(IndexValue<T>& a, const IndexValue<T>& b) { return place_combine<false>(a, b.value, b.index); }
template <typename T, int M, bool across> inline at::vec::VectorizedN<int64_t, M> create_index(int64_t at) { return at::vec::VectorizedN<int64_t, M>::arange(at, across ? 1 : 0); }
template <typename T, int N, int M, bool across> inline IndexValueVec<T, N, M>& argmax_combine_vec(IndexValueVec<T, N, M>& a, at::vec::VectorizedN<T, N> value, int64_t at, int64_t n = LANES) { place_combine<true>(a, value, create_index<T, M, across>(at), n); return a; }
template <typename T, int N, int M, bool across> inline IndexValueVec<T, N, M>& argmin_combine_vec(IndexValueVec<T, N, M>& a, at::vec::VectorizedN<T, N> value, int64_t at, int64_t n = LANES) { place_combine<false>(a, value, create_index<T, M, across>(at), n); return a; }
template <typename T, int N, int M> inline IndexValueVec<T, N, M>& argmax_combine_vec(IndexValueVec<T, N, M>& a, const IndexValueVec<T, N, M>& b) { place_combine<true>(a, b.value, b.index, LANES); return a; }
template <typename T, int N, int M> inline IndexValueVec<T, N, M>& argmin_combine_vec(IndexValueVec<T, N, M>& a, const IndexValueVec<T, N, M>& b) { place_combine<false>(a, b.value, b.index, LANES); return a; }
template <bool most, typename T, int N, int M> inline IndexValue<T> place_reduce_all(const IndexValueVec<T, N, M>& a) {
  IndexValue<T> best{a.index[0], a.value[0]};
  for (int i = 1; i < a.value.size(); ++i) place_combine<most>(best, a.value[i], a.index[i]);
  return best;
}
template <typename T, int N, int M> inline IndexValue<T> argmax_vec_reduce_all(const IndexValueVec<T, N, M>& a) { return place_reduce_all<true>(a); }
template <typename T, int N, int M> inline IndexValue<T> argmin_vec_reduce_all(const IndexValueVec<T, N, M>& a) { return place_reduce_all<false>(a); }

template <typename T, bool add> inline void transpose_mxn(const T* from, int64_t wide, T* to, int64_t high, int m, int n) {
  typedef at::vec::Vectorized<T> P;
  constexpr int L = P::size();
#if !defined(__clang__)
  if (m == L && n == L && !add) {
    P a[L], b[L];
    typename P::I low, top;
    for (int i = 0; i < L; ++i) low[i] = i / 2 + (i & 1) * L, top[i] = low[i] + L / 2;
    _Pragma("GCC unroll 64") for (int i = 0; i < L; ++i) a[i] = P::loadu(from + i * wide);
    _Pragma("GCC unroll 6") for (int turn = 1; turn < L; turn *= 2) {
      _Pragma("GCC unroll 32") for (int i = 0; i < L / 2; ++i) {
        b[2 * i] = P(__builtin_shuffle(a[i].v, a[i + L / 2].v, low));
        b[2 * i + 1] = P(__builtin_shuffle(a[i].v, a[i + L / 2].v, top));
      }
      _Pragma("GCC unroll 64") for (int i = 0; i < L; ++i) a[i] = b[i];
    }
    _Pragma("GCC unroll 64") for (int i = 0; i < L; ++i) a[i].store(to + i * high);
    return;
  }
#endif
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) to[j * high + i] = (add ? to[j * high + i] : T(0)) + from[i * wide + j];
}
template <typename T, int m, int n, bool add = false> inline void transpose_mxn(const T* from, int64_t wide, T* to, int64_t high) { transpose_mxn<T, add>(from, wide, to, high, m, n); }
