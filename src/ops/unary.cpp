// Unary functions: absolute value, powers of e, 2 and 10 and their logarithms, roots, error
// functions. Trigonometry is in trig.cpp, rounding in unary_round.cpp, activations in
// activation.cpp.
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402,
                 kTwoOverSqrtPi = 1.12837916709551257390;

struct Abs {
  template <class V> V value(V x) const { return abs(x); }
  template <class V> V grad(V g, V x) const {
    return g * select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
};
struct Exp {
  static constexpr double kFlops = 4;
  template <class V> static auto ordinary(V x) { return exp_ordinary(x); }
  template <class V> V value(V x) const { return exp(x); }
};
struct Exp2 {
  static constexpr double kFlops = 4;
  static constexpr bool kGradFromOutput = true;
  template <class V> static auto ordinary(V x) { return exp2_ordinary(x); }
  template <class V> V value(V x) const { return exp2(x); }
  template <class V> V grad(V g, V y) const { return g * (y * V(kLn2)); }
};
struct Expm1 {
  static constexpr double kFlops = 4;
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return expm1(x); }
  template <class V> V grad(V g, V y) const { return g * (y + V(1)); }
};
struct Log {
  static constexpr double kFlops = 4;
  template <class V> static auto ordinary(V x) { return log_ordinary(x); }
  template <class V> V value(V x) const { return log(x); }
};
struct Log2 {
  static constexpr double kFlops = 4;
  template <class V> static auto ordinary(V x) { return log_ordinary(x); }
  template <class V> V value(V x) const { return log2(x); }
  template <class V> V grad(V g, V x) const { return g / (x * V(kLn2)); }
};
struct Log10 {
  static constexpr double kFlops = 4;
  template <class V> static auto ordinary(V x) { return log_ordinary(x); }
  template <class V> V value(V x) const { return log10(x); }
  template <class V> V grad(V g, V x) const { return g / (x * V(kLn10)); }
};
struct Log1p {
  static constexpr double kFlops = 4;
  template <class V> static auto ordinary(V x) { return log1p_ordinary(x); }
  template <class V> V value(V x) const { return log1p(x); }
  template <class V> V grad(V g, V x) const { return g / (x + V(1)); }
};
struct Sqrt {
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return sqrt(x); }
  template <class V> V grad(V g, V y) const { return g / (V(2) * y); }
};
struct Rsqrt {
  static constexpr double kFlops = 2;
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return rsqrt(x); }
  template <class V> V grad(V g, V y) const { return V(-0.5) * g * (y * y * y); }
};
struct Square {
  template <class V> V value(V x) const { return x * x; }
  template <class V> V grad(V g, V x) const { return g * (V(2) * x); }
};
struct Reciprocal {
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return V(1) / x; }
  template <class V> V grad(V g, V y) const { return -g * (y * y); }
};
struct Erf {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return erf(x); }
  template <class V> V grad(V g, V x) const { return V(kTwoOverSqrtPi) * exp(-(x * x)) * g; }
};
struct Erfc {
  static constexpr double kFlops = 12;
  template <class V> V value(V x) const { return erfc(x); }
  template <class V> V grad(V g, V x) const { return V(-kTwoOverSqrtPi) * exp(-(x * x)) * g; }
};

/// A polynomial start (Giles, "Approximating the erfinv function", 2010) and Newton steps on erf.
struct Erfinv {
  static constexpr double kFlops = 30;
  static constexpr bool kGradFromOutput = true;
  /// Where the logarithm below has an ordinary argument.
  template <class V> static auto ordinary(V x) { return abs(x) < V(1); }
  template <class V> V value(V x) const {
    const V w = -log((V(1) - x) * (V(1) + x));
    const V near = kernels::detail::poly(w - V(2.5), 1.50140941, 0.246640727, -0.00417768164,
                                         -0.00125372503, 0.00021858087, -4.39150654e-06,
                                         -3.5233877e-06, 3.43273939e-07, 2.81022636e-08);
    const V far = kernels::detail::poly(sqrt(w) - V(3), 2.83297682, 1.00167406, 0.00943887047,
                                        -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
                                        0.000100950558, -0.000200214257);
    V y = select(w < V(5), near, far) * x;
    if constexpr (!kernels::detail::is_float<V>) {  // in float the start is as good as a step
      // Beyond this the difference erf(y) - x is rounding alone.
      const auto steep = w > V(25);
      y = select(steep, y, newton(y, x));  // written out: a loop here would not be vectorised
      y = select(steep, y, newton(y, x));
    }
    y = select(x == V(0), x, y);
    return select(abs(x) == V(1), copysign(kernels::detail::infinity<V>(), x), y);
  }
  template <class V> V grad(V g, V y) const { return V(1 / kTwoOverSqrtPi) * exp(y * y) * g; }

 private:
  template <class V> static V newton(V y, V x) {
    return y - (erf(y) - x) / (V(kTwoOverSqrtPi) * exp(-(y * y)));
  }
};

/// x pi / 180 and back.
template <bool kToRadians> struct Degrees {
  static constexpr double kFactor = kToRadians ? 0.017453292519943295769 : 57.295779513082320877;
  template <class V> V value(V x) const { return x * V(kFactor); }
};

/// log(x / (1 - x)) of x clamped to [eps, 1 - eps], where there is an eps. What depends on eps are
/// numbers here and no branches, so that the loop is vectorised.
struct Logit {
  static constexpr double kFlops = 8;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double eps = -kInfinity;  // the clamp of the value
  double low = 0, high = 1, outside = std::numeric_limits<double>::quiet_NaN();  // of the gradient
  explicit Logit(const AttrReader& a) {
    if (a.has_attr(0) && !(a.number(0) < 0))
      eps = a.number(0), low = eps, high = 1 - eps, outside = 0;
  }
  template <class V> V value(V x) const {
    const V least = V(eps), most = V(1) - V(eps);
    const V y = select(x < least, least, select(x > most, most, x));
    return log(y / (V(1) - y));
  }
  template <class V> V grad(V g, V x) const {
    return select((x < V(low)) | (x > V(high)), V(outside), g / (x * (V(1) - x)));
  }
};

void infer_square(Call& c) {
  check_defined(c, 0, "self");
  const DType t = c.in(0).dtype();
  make_pointwise_output(c, t == kBool ? kInt64 : t);
}

// nan_to_num

struct NanToNum {
  static constexpr double kFlops = 3;
  double nan, posinf, neginf;
  template <class V> V value(V x) const {
    if constexpr (on_integers<V>())
      return x;
    else {
      const V inf = kernels::detail::infinity<V>();
      return select(x != x, V(nan), select(x == inf, V(posinf), select(x == -inf, V(neginf), x)));
    }
  }
};

double greatest(DType t) {
  switch (t) {
    case kFloat16:
      return 65504;
    case kBFloat16:
      return 0x1.fep127;
    case kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

void run_nan_to_num(Call& c) {
  const double most = greatest(c.in(0).dtype());
  run_with<NanToNum, 1, kernels::AllTypes, Result::Same>(
      c, {c.has_attr(0) ? c.number(0) : 0, c.has_attr(1) ? c.number(1) : most,
          c.has_attr(2) ? c.number(2) : -most});
}

void positive_samples(Samples& s) { unary_samples_in<0.1, 3.0>(s); }

}  // namespace

extern const OpDef square_backward_op, logit_backward_op;

extern constinit const OpDef abs_op = with_backward<Abs>(unary_same<Abs, Accept::NoBool>(
    "abs|absolute[_](Tensor self) -> Tensor", "the absolute value; its derivative at 0 is 0",
    Saved::Inputs, nullptr, unary_samples, {"Abs", 13}));
extern constinit const OpDef exp_op = unary_float<Exp>(
    "exp[_](Tensor self) -> Tensor", "e^self", Saved::Output,
    [](const Vjp& v) -> Tensors { return {mul(v.grad, v.out())}; }, unary_samples, {"Exp", 13});
extern constinit const OpDef exp2_op =
    unary<Exp2>("exp2|special_exp2[_](Tensor self) -> Tensor", "2^self", unary_samples);
extern constinit const OpDef expm1_op = unary<Expm1>(
    "expm1|special_expm1[_](Tensor self) -> Tensor", "e^self - 1, exact near 0", unary_samples);

extern constinit const OpDef log_op = unary_float<Log>(
    "log[_](Tensor self) -> Tensor", "the natural logarithm", Saved::Inputs,
    [](const Vjp& v) -> Tensors { return {div(v.grad, v.in(0))}; }, positive_samples, {"Log", 13});
extern constinit const OpDef log2_op =
    unary<Log2>("log2[_](Tensor self) -> Tensor", "the logarithm to base 2", positive_samples);
extern constinit const OpDef log10_op =
    unary<Log10>("log10[_](Tensor self) -> Tensor", "the logarithm to base 10", positive_samples);
extern constinit const OpDef log1p_op =
    unary<Log1p>("log1p|special_log1p[_](Tensor self) -> Tensor", "log(1 + self), exact near 0",
                 unary_samples_in<-0.9, 3.0>);

extern constinit const OpDef sqrt_op = unary<Sqrt>(
    "sqrt[_](Tensor self) -> Tensor", "the square root", positive_samples, {"Sqrt", 13});
extern constinit const OpDef rsqrt_op =
    unary<Rsqrt>("rsqrt[_](Tensor self) -> Tensor", "1 / sqrt(self)", positive_samples);

extern constinit const OpDef square_op = {
    .schema = "square[_](Tensor self) -> Tensor",
    .doc = "self * self",
    .kind = OpKind::Pointwise,
    .infer = infer_square,
    .cost = formula_cost<Square>,
    .kernel = run_formula<Square, 1, kernels::AllTypes, Result::Same>,
    .saved = Saved::Inputs,
    .vjp = unary_vjp<Square, square_backward_op>,
    .samples = unary_samples,
    .any_layout = true,
    .describes = true,
};
extern constinit const OpDef square_backward_op =
    unary_backward<Square>("square_backward(Tensor grad_output, Tensor self) -> Tensor",
                           "grad_output * 2 * self", backward_samples);
extern constinit const OpDef reciprocal_op =
    unary<Reciprocal>("reciprocal[_](Tensor self) -> Tensor", "1 / self",
                      unary_samples_in<0.3, 3.0>, {"Reciprocal", 13});

extern constinit const OpDef erf_op = unary<Erf>("erf|special_erf[_](Tensor self) -> Tensor",
                                                 "the error function", unary_samples, {"Erf", 13});
extern constinit const OpDef erfc_op =
    unary<Erfc>("erfc|special_erfc[_](Tensor self) -> Tensor", "1 - erf(self), exact in the tail",
                unary_samples);
extern constinit const OpDef erfinv_op =
    unary<Erfinv>("erfinv|special_erfinv[_](Tensor self) -> Tensor",
                  "the inverse of erf on (-1, 1)", unary_samples_in<-0.9, 0.9>);

extern constinit const OpDef deg2rad_op = unary_float<Degrees<true>>(
    "deg2rad[_](Tensor self) -> Tensor", "self * pi / 180", Saved::None,
    [](const Vjp& v) -> Tensors { return {mul(v.grad, Degrees<true>::kFactor)}; }, unary_samples);
extern constinit const OpDef rad2deg_op = unary_float<Degrees<false>>(
    "rad2deg[_](Tensor self) -> Tensor", "self * 180 / pi", Saved::None,
    [](const Vjp& v) -> Tensors { return {mul(v.grad, Degrees<false>::kFactor)}; }, unary_samples);

extern constinit const OpDef logit_op = unary<Logit, logit_backward_op>(
    "logit|special_logit[_](Tensor self, float? eps=None) -> Tensor",
    "log(x / (1 - x)) with x = self, clamped to [eps, 1 - eps] if eps is given", [](Samples& s) {
      unary_samples_in<0.1, 0.9>(s);
      s.add({sample_uniform({3, 4}, -0.2, 1.2), 0.05});
    });
extern constinit const OpDef logit_backward_op = unary_backward<Logit>(
    "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
    "grad_output / (self * (1 - self)); 0 beyond the bounds of eps", [](Samples& s) {
      backward_samples_in<0.1, 0.9>(s);
      s.add({sample_randn({3, 4}), sample_uniform({3, 4}, -0.2, 1.2), 0.05});
    });

extern constinit const OpDef nan_to_num_op = {
    .schema =
        "nan_to_num[_](Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> "
        "Tensor",
    .doc =
        "self with NaN, inf and -inf replaced; by 0 and the greatest finite numbers unless given",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Same>,
    .cost = formula_cost<NanToNum>,
    .kernel = run_nan_to_num,
    .saved = Saved::Inputs,
    .vjp = [](const Vjp& v) -> Tensors { return {where(isfinite(v.in(0)), v.grad, 0)}; },
    .samples =
        [](Samples& s) {
          unary_samples(s);
          s.add_no_grad({sample_randn({4}) / sample_ints({4}, 0, 2)});
          s.add_no_grad({sample_ints({4}, -1, 2) / sample_ints({4}, 0, 2), 1.0, 2.0, 3.0});
          s.add_no_grad({sample_ints({4}, -1, 2)});
        },
    .any_layout = true,
    .describes = true};

}  // namespace pellucid
