// Comparisons, logical operations and predicates of one value. The result is bool; no gradient
// flows.
#include "pellucid/compare.h"

#include <cstring>

#include "base/parallel.h"
#include "kernels/reduce_lanes.h"
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct Eq {
  template <class V> auto value(V a, V b) const { return a == b; }
};
struct Ne {
  template <class V> auto value(V a, V b) const { return a != b; }
};
struct Lt {
  template <class V> auto value(V a, V b) const { return a < b; }
};
struct Le {
  template <class V> auto value(V a, V b) const { return a <= b; }
};
struct Gt {
  template <class V> auto value(V a, V b) const { return a > b; }
};
struct Ge {
  template <class V> auto value(V a, V b) const { return a >= b; }
};
/// `flags` is the same for two bytes that are 0 or 1.
struct And {
  static uint8_t flags(uint8_t a, uint8_t b) { return a & b; }
  template <class V> auto value(V a, V b) const { return (a != V(0)) & (b != V(0)); }
};
struct Or {
  static uint8_t flags(uint8_t a, uint8_t b) { return a | b; }
  template <class V> auto value(V a, V b) const { return (a != V(0)) | (b != V(0)); }
};
struct Xor {
  static uint8_t flags(uint8_t a, uint8_t b) { return a ^ b; }
  template <class V> auto value(V a, V b) const { return (a != V(0)) ^ (b != V(0)); }
};

/// A logical op of two; bool tensors of one dense shape without a detour through int32.
template <class F> void run_logical(Call& c) {
  const auto dense = [](const Tensor& t) { return t.dtype() == kBool && t.impl().is_contiguous(); };
  const Tensor &a = c.in(0), &b = c.in(1), &out = c.out();
  if (c.described() || !dense(a) || !dense(b) || !dense(out) || a.sizes() != b.sizes())
    return run_formula<F, 2, kernels::AllTypes, Result::Bool>(c);
  const auto bytes = [](const Tensor& t) { return static_cast<uint8_t*>(t.raw_data()); };
  parallel_for(0, out.numel(), 1 << 17, [&](int64_t begin, int64_t end) {
    const uint8_t *first = bytes(a), *second = bytes(b);
    uint8_t* result = bytes(out);
    kernels::at_isa([=](auto) {
      // Of its own: a store of bytes might change what was captured.
      const uint8_t *const x = first, *const y = second;
      uint8_t* const to = result;
#pragma GCC ivdep
      for (int64_t i = begin, last = end; i < last; ++i)  // any byte but 0 is true
        to[i] = F::flags(x[i] != 0 ? 1 : 0, y[i] != 0 ? 1 : 0);
    });
  });
}

struct Not {
  template <class V> auto value(V x) const { return x == V(0); }
};
struct IsNan {
  template <class V> auto value(V x) const { return x != x; }
};
struct IsInf {
  template <class V> auto value(V x) const {
    if constexpr (on_integers<V>())
      return x != x;
    else
      return isinf(x);
  }
};
struct IsFinite {
  template <class V> auto value(V x) const {
    if constexpr (on_integers<V>())
      return x == x;
    else
      return isfinite(x);
  }
};
struct IsPosInf {
  template <class V> auto value(V x) const {
    if constexpr (on_integers<V>())
      return x != x;
    else
      return x == kernels::detail::infinity<V>();
  }
};
struct IsNegInf {
  template <class V> auto value(V x) const {
    if constexpr (on_integers<V>())
      return x != x;
    else
      return x == -kernels::detail::infinity<V>();
  }
};
struct SignBit {
  template <class V> auto value(V x) const {
    if constexpr (on_integers<V>())
      return x < V(0);
    else
      return copysign(V(1), x) < V(0);
  }
};

/// |a - b| <= atol + rtol |b|, and equal infinities.
struct IsClose {
  static constexpr double kFlops = 4;
  double rtol, atol;
  bool equal_nan;
  explicit IsClose(const AttrReader& a)
      : rtol(a.number(0)), atol(a.number(1)), equal_nan(a.flag(2)) {}
  template <class V> auto value(V a, V b) const {
    const V error = abs(a - b), allowed = V(atol) + abs(V(rtol) * b);
    const auto near = (a == b) | ((error <= allowed) & isfinite(error));
    return near | ((a != a) & (b != b) & (V(equal_nan ? 1 : 0) == V(1)));
  }
};

void infer_isclose(Call& c) {
  infer_pointwise<Result::Bool>(c);
  PELLUCID_CHECK(c.in(0).dtype() == c.in(1).dtype(), TypeError,
                 "isclose: both tensors must have one dtype, found {} and {}.", c.in(0).dtype(),
                 c.in(1).dtype());
  PELLUCID_CHECK(c.number(0) >= 0 && c.number(1) >= 0, ValueError,
                 "isclose: rtol {} and atol {} must not be negative.", c.number(0), c.number(1));
}

void run_isclose(Call& c) {
  static constexpr size_t inputs[] = {0, 1};
  const IsClose f(c);
  const DType t = c.in(0).dtype();
  run_loop(c, kernels::pointwise_loops<IsClose, kernels::PredicateKind<2>>(), &f,
           is_floating(t) ? compute_type(t) : kFloat64, kBool, inputs, flops_of<IsClose>());
}

void compare_samples(Samples& s) {
  s.add({sample_randn({3, 4}), sample_randn({3, 4})});
  s.add({sample_ints({3, 1}, 0, 4), sample_ints({2, 1, 4}, 0, 4)});
  s.add({sample_ints({2, 3}, 0, 4).t(), 2});
  s.add({sample_ints({4}, 0, 4), 1.5});
  s.add({sample_randn({}), sample_randn({2, 2})});
  s.add({sample_randn({0, 3}), sample_randn({3})});
  s.error({sample_randn({2, 3}), sample_randn({4})}, "do not broadcast");
  s.large([] { return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024})}; });
}

void logical_samples(Samples& s) {
  s.add({sample_ints({3, 4}, 0, 2), sample_ints({4}, 0, 2)});
  s.add({sample_randn({3}).gt(0), sample_randn({2, 3}).gt(0)});
  s.add({sample_randn({2}), sample_ints({2}, 0, 2)});
  s.error({sample_randn({2, 3}), sample_randn({4})}, "do not broadcast");
  s.large([] { return std::vector<Value>{randn({4096, 1024}).gt(0), randn({4096, 1024}).gt(0)}; });
}

void test_samples(Samples& s) {
  s.add({sample_randn({3, 4}) / sample_ints({4}, 0, 2)});
  s.add({(sample_ints({2, 3}, -1, 2) / sample_ints({3}, 0, 2)).t()});
  s.add({sample_ints({4}, -1, 2)});
  s.add({sample_randn({})});
  s.large([] { return std::vector<Value>{randn({4096, 1024})}; });
}

template <class F>
constexpr OpDef logical(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                        Onnx onnx) {
  OpDef op = predicate<F, 2>(schema, doc, samples, onnx);
  op.kernel = run_logical<F>;
  return op;
}

}  // namespace

extern constinit const OpDef eq_op =
    predicate<Eq, 2>("eq[_](Tensor self, Tensor|Scalar other) -> Tensor", "self == other",
                     compare_samples, {"Equal", 13});
extern constinit const OpDef ne_op =
    predicate<Ne, 2>("ne|not_equal[_](Tensor self, Tensor|Scalar other) -> Tensor", "self != other",
                     compare_samples);
extern constinit const OpDef lt_op =
    predicate<Lt, 2>("lt|less[_](Tensor self, Tensor|Scalar other) -> Tensor", "self < other",
                     compare_samples, {"Less", 13});
extern constinit const OpDef le_op =
    predicate<Le, 2>("le|less_equal[_](Tensor self, Tensor|Scalar other) -> Tensor",
                     "self <= other", compare_samples, {"LessOrEqual", 16});
extern constinit const OpDef gt_op =
    predicate<Gt, 2>("gt|greater[_](Tensor self, Tensor|Scalar other) -> Tensor", "self > other",
                     compare_samples, {"Greater", 13});
extern constinit const OpDef ge_op =
    predicate<Ge, 2>("ge|greater_equal[_](Tensor self, Tensor|Scalar other) -> Tensor",
                     "self >= other", compare_samples, {"GreaterOrEqual", 16});

extern constinit const OpDef logical_and_op =
    logical<And>("logical_and[_](Tensor self, Tensor other) -> Tensor",
                 "whether both differ from 0", logical_samples, {"And", 7});
extern constinit const OpDef logical_or_op =
    logical<Or>("logical_or[_](Tensor self, Tensor other) -> Tensor", "whether one differs from 0",
                logical_samples, {"Or", 7});
extern constinit const OpDef logical_xor_op =
    logical<Xor>("logical_xor[_](Tensor self, Tensor other) -> Tensor",
                 "whether exactly one differs from 0", logical_samples, {"Xor", 7});
extern constinit const OpDef logical_not_op = predicate<Not, 1>(
    "logical_not[_](Tensor self) -> Tensor", "self == 0", test_samples, {"Not", 1});

extern constinit const OpDef isnan_op = predicate<IsNan, 1>(
    "isnan(Tensor self) -> Tensor", "whether self is NaN", test_samples, {"IsNaN", 13});
extern constinit const OpDef isinf_op = predicate<IsInf, 1>(
    "isinf(Tensor self) -> Tensor", "whether self is infinite", test_samples, {"IsInf", 10});
extern constinit const OpDef isfinite_op = predicate<IsFinite, 1>(
    "isfinite(Tensor self) -> Tensor", "whether self is neither infinite nor NaN", test_samples);
extern constinit const OpDef isposinf_op =
    predicate<IsPosInf, 1>("isposinf(Tensor self) -> Tensor", "self == inf", test_samples);
extern constinit const OpDef isneginf_op =
    predicate<IsNegInf, 1>("isneginf(Tensor self) -> Tensor", "self == -inf", test_samples);
extern constinit const OpDef signbit_op = predicate<SignBit, 1>(
    "signbit(Tensor self) -> Tensor", "whether the sign bit is set; true for -0.0", test_samples);

extern constinit const OpDef isclose_op = {
    .schema =
        "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
        "equal_nan=False) -> Tensor",
    .doc = "abs(self - other) <= atol + rtol * abs(other)",
    .kind = OpKind::Pointwise,
    .infer = infer_isclose,
    .cost = formula_cost<IsClose>,
    .kernel = run_isclose,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({4})});
          s.add({sample_ints({3}, 0, 2), sample_ints({2, 3}, 0, 2), 0.0, 0.5});
          s.add({sample_ints({4}, 0, 2) / sample_ints({4}, 0, 2),
                 sample_ints({4}, 0, 2) / sample_ints({4}, 0, 2)},
                {{"equal_nan", true}});
          s.error({sample_randn({2}), sample_ints({2}, 0, 2)}, "must have one dtype");
          s.error({sample_randn({2}), sample_randn({2}), -1.0}, "must not be negative");
          s.large([] { return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024})}; });
        },
    .any_layout = true,
    .describes = true};

namespace {

// Whether every byte of a bool tensor without gaps is set.
bool all_true(const Tensor& mask) {
  return mask.numel() == 0 || std::memchr(mask.raw_data(), 0, mask.nbytes()) == nullptr;
}

}  // namespace

bool equal(const Tensor& self, const Tensor& other) {
  if (self.sizes() != other.sizes()) return false;
  const NoGradGuard no_grad;
  return all_true(eq(self, other));
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  const NoGradGuard no_grad;
  return all_true(isclose(self, other, rtol, atol, equal_nan));
}

bool Tensor::equal(const Tensor& other) const { return pellucid::equal(*this, other); }

bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return pellucid::allclose(*this, other, rtol, atol, equal_nan);
}

}  // namespace pellucid
