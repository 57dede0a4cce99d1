// Rounding and signs: step functions whose gradient is 0, and frac.
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct Floor {
  template <class V> V value(V x) const { return floor(x); }
};
struct Ceil {
  template <class V> V value(V x) const { return ceil(x); }
};
struct Trunc {
  template <class V> V value(V x) const { return trunc(x); }
};
struct Round {
  template <class V> V value(V x) const { return round(x); }
};
struct Frac {
  template <class V> V value(V x) const { return x - trunc(x); }
};
struct Sign {
  template <class V> V value(V x) const {
    return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
};

/// To a number of decimals: times 10^decimals, rounded, and back.
struct RoundDecimals {
  static constexpr double kFlops = 3;
  double scale;
  bool up;
  explicit RoundDecimals(const AttrReader& a)
      : scale(std::pow(10.0, std::abs(static_cast<double>(a.integer(0))))), up(a.integer(0) >= 0) {}
  template <class V> V value(V x) const {
    return up ? round(x * V(scale)) / V(scale) : round(x / V(scale)) * V(scale);
  }
};

// One zero, expanded: memory is written only where something is added to it.
Tensors step_vjp(const Vjp& v) { return {zeros({}, v.grad.dtype()).expand(v.grad.sizes())}; }

void round_samples(Samples& s) {
  unary_samples(s);
  s.add_no_grad({sample_ints({4}, -3, 3)});
}

}  // namespace

extern constinit const OpDef floor_op = unary_same<Floor, Accept::NoBool>(
    "floor[_](Tensor self) -> Tensor", "the greatest integer not above self", Saved::None, step_vjp,
    round_samples, {"Floor", 13});
extern constinit const OpDef ceil_op = unary_same<Ceil, Accept::NoBool>(
    "ceil[_](Tensor self) -> Tensor", "the least integer not below self", Saved::None, step_vjp,
    round_samples, {"Ceil", 13});
extern constinit const OpDef trunc_op = unary_same<Trunc, Accept::NoBool>(
    "trunc|fix[_](Tensor self) -> Tensor", "self without its fraction", Saved::None, step_vjp,
    round_samples);
extern constinit const OpDef round_op = unary_same<Round, Accept::NoBool>(
    "round|special_round[_](Tensor self) -> Tensor", "the nearest integer, ties to even",
    Saved::None, step_vjp, round_samples, {"Round", 11});
extern constinit const OpDef round_decimals_op =
    unary_same<RoundDecimals, Accept::Floating, kernels::FloatTypes>(
        "round|special_round[_].decimals(Tensor self, *, int decimals) -> Tensor",
        "rounded to a number of decimals; negative ones round to tens, hundreds…", Saved::None,
        step_vjp, [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4})}, {{"decimals", 1}});
          s.add_no_grad({sample_uniform({4}, -200, 200)}, {{"decimals", -1}});
          s.error({sample_ints({4}, 0, 9)}, "takes floating tensors", {{"decimals", 1}});
          s.large([] { return std::vector<Value>{randn({4096, 1024})}; }, {{"decimals", 2}});
        });
extern constinit const OpDef frac_op = unary_same<Frac, Accept::Floating, kernels::FloatTypes>(
    "frac[_](Tensor self) -> Tensor", "self - trunc(self)", Saved::None,
    [](const Vjp& v) -> Tensors { return {v.grad}; }, unary_samples);
extern constinit const OpDef sign_op =
    unary_same<Sign>("sign|sgn[_](Tensor self) -> Tensor", "-1, 0 or 1", Saved::None, step_vjp,
                     round_samples, {"Sign", 13});
extern constinit const OpDef positive_op = {
    .schema = "positive(Tensor self) -> Tensor",
    .doc = "self itself",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_accepts(c, Accept::NoBool, c.in(0).dtype());
      return {c.in(0)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.error({sample_randn({2}).gt(0)}, "takes number tensors");
        },
};

}  // namespace pellucid
