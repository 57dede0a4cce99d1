// Operations on integers: bitwise ones and shifts, greatest common divisors and least common
// multiples; and, or, xor and not on bool too.
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct BitAnd {
  template <class V> V value(V a, V b) const { return a & b; }
};
struct BitOr {
  template <class V> V value(V a, V b) const { return a | b; }
};
struct BitXor {
  template <class V> V value(V a, V b) const { return a ^ b; }
};
struct BitNot {
  template <class V> V value(V x) const { return ~x; }
};
struct BoolNot {
  template <class V> V value(V x) const { return x ^ V(1); }
};

/// Shifts by less than 0 or by the width and more push every bit out, as in PyTorch.
struct ShiftLeft {
  template <class V> V value(V a, V b) const {
    using T = typename V::Scalar;
    using U = std::make_unsigned_t<T>;
    constexpr U width = sizeof(T) * 8;
    const U n = U(b.v);
    return V(n < width ? T(U(a.v) << (n & (width - 1))) : T(0));
  }
};
struct ShiftRight {
  template <class V> V value(V a, V b) const {
    using T = typename V::Scalar;
    using U = std::make_unsigned_t<T>;
    constexpr U width = sizeof(T) * 8;
    const U n = U(b.v);
    return V(T(a.v >> (n < width ? n : width - 1)));
  }
};

/// Euclid's algorithm on the magnitudes.
template <class T> std::make_unsigned_t<T> common_divisor(T x, T y) {
  using U = std::make_unsigned_t<T>;
  U a = x < 0 ? U(0) - U(x) : U(x), b = y < 0 ? U(0) - U(y) : U(y);
  while (b != 0) {
    const U rest = U(a % b);
    a = b;
    b = rest;
  }
  return a;
}

struct Gcd {
  static constexpr double kFlops = 20;
  template <class V> V value(V a, V b) const {
    using T = typename V::Scalar;
    return V(T(common_divisor(a.v, b.v)));
  }
};
struct Lcm {
  static constexpr double kFlops = 25;
  template <class V> V value(V a, V b) const {
    using T = typename V::Scalar;
    using U = std::make_unsigned_t<T>;
    const U divisor = common_divisor(a.v, b.v);
    if (divisor == 0) return V(T(0));
    const T product = T((a.v < 0 ? U(0) - U(a.v) : U(a.v)) / divisor * U(b.v));
    return V(product < 0 ? T(U(0) - U(product)) : product);
  }
};

void run_bitwise_not(Call& c) {
  if (c.in(0).dtype() == kBool)
    run_formula<BoolNot, 1, kernels::IntegerTypes, Result::Same>(c);
  else
    run_formula<BitNot, 1, kernels::IntegerTypes, Result::Same>(c);
}

void bit_samples(Samples& s) {
  s.add({sample_ints({3, 4}, -100, 100), sample_ints({4}, -100, 100)});
  s.add({sample_ints({4, 3}, -100, 100).t(), 5});
  s.add({sample_randn({3}).gt(0), sample_randn({2, 1}).gt(0)});
  s.add({sample_randn({3}).gt(0), sample_ints({3}, 0, 9)});
  s.error({sample_randn({2}), sample_randn({2})}, "takes integer tensors");
  s.error({sample_ints({2, 3}, 0, 9), sample_ints({4}, 0, 9)}, "do not broadcast");
  s.large([] {
    return std::vector<Value>{randint(0, 1000, {4096, 1024}, kInt32),
                              randint(0, 1000, {4096, 1024}, kInt32)};
  });
}

void shift_samples(Samples& s) {
  s.add({sample_ints({3, 4}, -100, 100), sample_ints({4}, 0, 70)});
  s.add({sample_ints({4, 3}, -100, 100).t(), 3});
  s.error({sample_randn({2}), sample_randn({2})}, "takes integer tensors");
  s.large([] {
    return std::vector<Value>{randint(0, 1000, {4096, 1024}, kInt32),
                              randint(0, 8, {4096, 1024}, kInt32)};
  });
}

void divisor_samples(Samples& s) {
  s.add({sample_ints({3, 4}, -100, 100), sample_ints({4}, -100, 100)});
  s.add({sample_ints({4, 3}, -20, 20).t(), sample_ints({4, 1}, 0, 3).permute({1, 0})});
  s.error({sample_randn({2}), sample_randn({2})}, "takes integer tensors");
  s.error({sample_randn({2}).gt(0), sample_randn({2}).gt(0)}, "takes integer tensors");
  s.large([] {
    return std::vector<Value>{randint(0, 1000, {1024, 1024}, kInt32),
                              randint(0, 1000, {1024, 1024}, kInt32)};
  });
}

template <class F, Accept A = Accept::Integral>
constexpr OpDef bitwise(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                        Onnx onnx = {}) {
  return binary<F, kernels::IntegerTypes, Result::Same, A>(schema, doc, Saved::None, no_gradient,
                                                           samples, onnx);
}

}  // namespace

extern constinit const OpDef bitwise_and_op =
    bitwise<BitAnd>("bitwise_and[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
                    "self & other", bit_samples, {"BitwiseAnd", 18});
extern constinit const OpDef bitwise_or_op =
    bitwise<BitOr>("bitwise_or[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
                   "self | other", bit_samples, {"BitwiseOr", 18});
extern constinit const OpDef bitwise_xor_op =
    bitwise<BitXor>("bitwise_xor[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
                    "self ^ other", bit_samples, {"BitwiseXor", 18});

extern constinit const OpDef bitwise_not_op = {
    .schema = "bitwise_not[_](Tensor self) -> Tensor",
    .doc = "~self; for bool the logical not",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Same, Accept::Integral>,
    .cost = formula_cost<BitNot>,
    .kernel = run_bitwise_not,
    .vjp = no_gradient,
    .onnx = {"BitwiseNot", 18},
    .samples =
        [](Samples& s) {
          s.add({sample_ints({3, 4}, -100, 100).t()});
          s.add({sample_randn({3}).gt(0)});
          s.error({sample_randn({2})}, "takes integer tensors");
          s.large([] { return std::vector<Value>{randint(0, 1000, {4096, 1024}, kInt32)}; });
        },
    .any_layout = true,
};

extern constinit const OpDef bitwise_left_shift_op = bitwise<ShiftLeft, Accept::IntegralNoBool>(
    "bitwise_left_shift[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    "self << other; 0 where other is negative or the width and more", shift_samples,
    {"BitShift", 11});
extern constinit const OpDef bitwise_right_shift_op = bitwise<ShiftRight, Accept::IntegralNoBool>(
    "bitwise_right_shift[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    "self >> other, keeping the sign", shift_samples);

extern constinit const OpDef gcd_op = bitwise<Gcd, Accept::IntegralNoBool>(
    "gcd[_](Tensor self, Tensor other) -> Tensor", "the greatest common divisor of integers",
    divisor_samples);
extern constinit const OpDef lcm_op =
    bitwise<Lcm, Accept::IntegralNoBool>("lcm[_](Tensor self, Tensor other) -> Tensor",
                                         "the least common multiple of integers", divisor_samples);

}  // namespace pellucid
