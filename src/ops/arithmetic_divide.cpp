// Division that rounds, and what it leaves: div with a rounding mode, floor_divide, fmod,
// remainder. A zero among integer divisors raises before anything is written.
#include <algorithm>

#include "kernels/convert.h"
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct FloorDiv {
  static constexpr double kFlops = 4;
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V a, V b) { return fmod_ordinary(a, b); }
  template <class V> V value(V a, V b) const { return floor_div(a, b); }
};
struct TruncDiv {
  static constexpr double kFlops = 2;
  template <class V> V value(V a, V b) const { return trunc(a / b); }
};
struct Fmod {
  static constexpr double kFlops = 4;
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V a, V b) { return fmod_ordinary(a, b); }
  template <class V> V value(V a, V b) const { return fmod(a, b); }
};
struct Remainder {
  static constexpr double kFlops = 5;
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V a, V b) { return fmod_ordinary(a, b); }
  template <class V> V value(V a, V b) const { return remainder(a, b); }
};

bool has_zero(const Tensor& t, DType promoted) {
  if (t.dim() == 0) {  // a number counts as what it becomes in the promoted type
    alignas(8) char value[8] = {};
    kernels::block_converter(promoted, t.dtype())(value, t.raw_data(), 1);
    return std::all_of(value, value + element_size(promoted), [](char byte) { return byte == 0; });
  }
  const Tensor values = is_dense(t) ? t : contiguous_values(t);
  return visit(values.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* data = values.raw<T>();
    bool found = false;
    for (int64_t i = 0; i < values.numel(); ++i) found |= data[i] == T(0);
    return found;
  });
}

void check_divisor(const Call& c) {
  const DType promoted = result_type(c);
  if (is_floating(promoted)) return;
  PELLUCID_CHECK(c.out().numel() == 0 || !has_zero(c.in(1), promoted), ValueError,
                 "{}: ZeroDivisionError: an integer is divided by zero (self {}, other {}). "
                 "Floating tensors give inf or NaN instead.",
                 c.name(), describe(c.in(0)), describe(c.in(1)));
}

template <class F> void run_division(Call& c) {
  check_divisor(c);
  run_formula<F, 2, kernels::AllTypes, Result::Same>(c);
}

// div with a rounding mode

enum class Mode : uint8_t { None, Trunc, Floor };

Mode mode_of(const AttrReader& a) {
  if (!a.has_attr(0)) return Mode::None;
  const std::string_view text = a.text(0);
  PELLUCID_CHECK(text == "trunc" || text == "floor", ValueError,
                 "div: rounding_mode must be None, 'trunc' or 'floor', found '{}'.", text);
  return text == "trunc" ? Mode::Trunc : Mode::Floor;
}

void infer_div_mode(Call& c) {
  if (mode_of(c) == Mode::None)
    infer_pointwise<Result::Float>(c);
  else
    infer_pointwise<Result::Same, Accept::NoBool>(c);
}

struct TrueDiv {
  template <class V> V value(V a, V b) const { return a / b; }
};

void run_div_mode(Call& c) {
  const Mode mode = mode_of(c);
  if (mode == Mode::None)
    run_formula<TrueDiv, 2, kernels::FloatTypes, Result::Float>(c);
  else if (mode == Mode::Trunc)
    run_division<TruncDiv>(c);
  else
    run_division<FloorDiv>(c);
}

Tensors div_mode_vjp(const Vjp& v) {
  if (mode_of(v) != Mode::None) return zero_vjp(v);
  const Tensor quotient = div(v.grad, v.in(1));
  return {v.needs(0) ? quotient : Tensor(),
          v.needs(1) ? neg(mul(quotient, div(v.in(0), v.in(1)))) : Tensor()};
}

// d fmod(a, b) / db = -trunc(a / b), and floor for remainder.
Tensors modulo_vjp(const Vjp& v, std::string_view mode) {
  return {v.needs(0) ? v.grad : Tensor(),
          v.needs(1) ? neg(mul(v.grad, div(v.in(0), v.in(1), mode))) : Tensor()};
}

// Quotients stay at a distance from integers, where the functions jump.
Tensor dividend(IntArrayRef sizes) {
  return sample_ints(sizes, -5, 5) * 2 + sample_uniform(sizes, 0.6, 1.4);
}

void modulo_samples(Samples& s) {
  s.add({dividend({3, 4}), sample_ints({4}, 1, 2) * 2.0});
  s.add({dividend({4, 3}).t(), 2.0});
  s.add({dividend({2, 3}), sample_ints({3}, 1, 2) * -2.0});
  s.add_no_grad({sample_ints({3, 4}, -20, 20), sample_ints({4}, 1, 6)});
  s.add_no_grad({sample_ints({3, 4}, -20, 20), -3});
  s.add_no_grad({sample_ints({3, 4}, -20, 20), 2.5});
  s.error({sample_ints({3}, 1, 9), 0}, "ZeroDivisionError");
  s.error({sample_ints({3}, 1, 9), sample_ints({3}, 0, 1)}, "ZeroDivisionError");
  s.error({sample_randn({2, 3}), sample_randn({4})}, "do not broadcast");
  s.error({sample_randn({2}).gt(0), sample_randn({2}).gt(0)}, "takes number tensors");
  s.large([] { return std::vector<Value>{randn({4096, 1024}), rand({4096, 1024}) + 0.5}; });
}

void div_mode_samples(Samples& s) {
  for (const Value& mode : {Value(), Value("trunc"), Value("floor")}) {
    s.add({dividend({3, 4}), sample_ints({4}, 1, 2) * 2.0}, {{"rounding_mode", mode}});
    s.add_no_grad({sample_ints({3, 4}, -20, 20), -3}, {{"rounding_mode", mode}});
  }
  s.error({sample_ints({3}, 1, 9), 0}, "ZeroDivisionError", {{"rounding_mode", "floor"}});
  s.error({sample_randn({3}), 2}, "rounding_mode must be", {{"rounding_mode", "up"}});
  s.large(
      [] {
        return std::vector<Value>{randn({4096, 1024}), rand({4096, 1024}) + 0.5};
      },
      {{"rounding_mode", "floor"}});
}

}  // namespace

extern constinit const OpDef div_mode_op = {
    .schema =
        "div|divide[_].Tensor_mode(Tensor self, Tensor|Scalar other, *, str? rounding_mode) -> "
        "Tensor",
    .doc = "self / other, rounded towards 0 ('trunc'), down ('floor') or not at all (None)",
    .kind = OpKind::Pointwise,
    .infer = infer_div_mode,
    .cost = formula_cost<TruncDiv>,
    .kernel = run_div_mode,
    .check =
        [](const Call& c) {
          if (mode_of(c) != Mode::None) check_divisor(c);
        },
    .saved = Saved::Inputs,
    .vjp = div_mode_vjp,
    .samples = div_mode_samples,
    .any_layout = true,
    .describes = true,
};
extern constinit const OpDef floor_divide_op = {
    .schema = "floor_divide[_](Tensor self, Tensor|Scalar other) -> Tensor",
    .doc = "self / other rounded down, as Python's //",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Same, Accept::NoBool>,
    .cost = formula_cost<FloorDiv>,
    .kernel = run_division<FloorDiv>,
    .check = check_divisor,
    .vjp = no_gradient,
    .samples = modulo_samples,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef fmod_op = {
    .schema = "fmod[_](Tensor self, Tensor|Scalar other) -> Tensor",
    .doc = "self - trunc(self / other) * other: the sign of self",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Same, Accept::NoBool>,
    .cost = formula_cost<Fmod>,
    .kernel = run_division<Fmod>,
    .check = check_divisor,
    .saved = Saved::Inputs,
    .vjp = [](const Vjp& v) { return modulo_vjp(v, "trunc"); },
    .samples = modulo_samples,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef remainder_op = {
    .schema = "remainder[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    .doc = "self - floor(self / other) * other, Python's %: the sign of other",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Same, Accept::NoBool>,
    .cost = formula_cost<Remainder>,
    .kernel = run_division<Remainder>,
    .check = check_divisor,
    .saved = Saved::Inputs,
    .vjp = [](const Vjp& v) { return modulo_vjp(v, "floor"); },
    .samples = modulo_samples,
    .any_layout = true,
    .describes = true};

}  // namespace pellucid
