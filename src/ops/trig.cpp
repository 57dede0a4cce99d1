// Trigonometric and hyperbolic functions and their inverses.
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

struct Sin {
  static constexpr double kFlops = 5;
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V x) { return trig_ordinary(x); }
  template <class V> V value(V x) const { return sin(x); }
  template <class V> V grad(V g, V x) const { return g * cos(x); }
};
struct Cos {
  static constexpr double kFlops = 5;
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V x) { return trig_ordinary(x); }
  template <class V> V value(V x) const { return cos(x); }
  template <class V> V grad(V g, V x) const { return -(g * sin(x)); }
};
struct Tan {
  static constexpr double kFlops = 8;
  static constexpr bool kUsesLibm = true;
  static constexpr bool kGradFromOutput = true;
  template <class V> static auto ordinary(V x) { return trig_ordinary(x); }
  template <class V> V value(V x) const { return tan(x); }
  template <class V> V grad(V g, V y) const { return g * (V(1) + y * y); }
};
struct Asin {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return asin(x); }
  template <class V> V grad(V g, V x) const { return g * rsqrt(V(1) - x * x); }
};
struct Acos {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return acos(x); }
  template <class V> V grad(V g, V x) const { return -(g * rsqrt(V(1) - x * x)); }
};
struct Atan {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return atan(x); }
  template <class V> V grad(V g, V x) const { return g / (x * x + V(1)); }
};
struct Sinh {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return sinh(x); }
  template <class V> V grad(V g, V x) const { return g * cosh(x); }
};
struct Cosh {
  static constexpr double kFlops = 5;
  template <class V> V value(V x) const { return cosh(x); }
  template <class V> V grad(V g, V x) const { return g * sinh(x); }
};
struct Tanh {
  static constexpr double kFlops = 5;
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return tanh(x); }
  template <class V> V grad(V g, V y) const { return g * (V(1) - y * y); }
};

/// log1p keeps all digits near 0; beyond 2^28 the square would overflow and the 1 no longer counts.
struct Asinh {
  static constexpr double kFlops = 8;
  template <class V> V value(V x) const {
    const V a = abs(x);
    const auto great = a > V(0x1p28);
    const V s = select(great, V(1), a);
    const V r = log1p(select(great, a, s + s * s / (V(1) + sqrt(s * s + V(1)))));
    return copysign(select(great, r + V(kLn2), r), x);
  }
  template <class V> V grad(V g, V x) const { return g * rsqrt(x * x + V(1)); }
};
struct Acosh {
  static constexpr double kFlops = 8;
  template <class V> V value(V x) const {
    const auto great = x > V(0x1p28);
    const V t = select(great, V(1), x - V(1));
    const V r = log1p(select(great, x, t + sqrt(t * (t + V(2)))));
    return select(x < V(1), kernels::detail::nan<V>(), select(great, r + V(kLn2), r));
  }
  template <class V> V grad(V g, V x) const { return g * rsqrt(x - V(1)) * rsqrt(x + V(1)); }
};
struct Atanh {
  static constexpr double kFlops = 8;
  template <class V> V value(V x) const {
    const V a = abs(x);
    return copysign(V(0.5) * log1p((a + a) / (V(1) - a)), x);
  }
  template <class V> V grad(V g, V x) const { return g / (V(1) - x * x); }
};

void unit_samples(Samples& s) { unary_samples_in<-0.9, 0.9>(s); }

}  // namespace

extern const OpDef tanh_backward_op;

extern constinit const OpDef sin_op =
    unary<Sin>("sin[_](Tensor self) -> Tensor", "the sine", unary_samples, {"Sin", 7});
extern constinit const OpDef cos_op =
    unary<Cos>("cos[_](Tensor self) -> Tensor", "the cosine", unary_samples, {"Cos", 7});
extern constinit const OpDef tan_op = unary<Tan>("tan[_](Tensor self) -> Tensor", "the tangent",
                                                 unary_samples_in<-1.2, 1.2>, {"Tan", 7});

extern constinit const OpDef asin_op = unary<Asin>("asin|arcsin[_](Tensor self) -> Tensor",
                                                   "the inverse sine", unit_samples, {"Asin", 7});
extern constinit const OpDef acos_op = unary<Acos>("acos|arccos[_](Tensor self) -> Tensor",
                                                   "the inverse cosine", unit_samples, {"Acos", 7});
extern constinit const OpDef atan_op = unary<Atan>(
    "atan|arctan[_](Tensor self) -> Tensor", "the inverse tangent", unary_samples, {"Atan", 7});

extern constinit const OpDef sinh_op = unary<Sinh>(
    "sinh[_](Tensor self) -> Tensor", "the hyperbolic sine", unary_samples, {"Sinh", 9});
extern constinit const OpDef cosh_op = unary<Cosh>(
    "cosh[_](Tensor self) -> Tensor", "the hyperbolic cosine", unary_samples, {"Cosh", 9});
extern constinit const OpDef tanh_op = activation(unary<Tanh, tanh_backward_op>(
    "tanh[_](Tensor self) -> Tensor", "the hyperbolic tangent", unary_samples, {"Tanh", 13}));
extern constinit const OpDef tanh_backward_op =
    unary_backward<Tanh>("tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
                         "grad_output * (1 - output^2)", backward_samples);

extern constinit const OpDef asinh_op =
    unary<Asinh>("asinh|arcsinh[_](Tensor self) -> Tensor", "the inverse hyperbolic sine",
                 unary_samples, {"Asinh", 9});
extern constinit const OpDef acosh_op =
    unary<Acosh>("acosh|arccosh[_](Tensor self) -> Tensor", "the inverse hyperbolic cosine",
                 unary_samples_in<1.2, 4.0>, {"Acosh", 9});
extern constinit const OpDef atanh_op =
    unary<Atanh>("atanh|arctanh[_](Tensor self) -> Tensor", "the inverse hyperbolic tangent",
                 unit_samples, {"Atanh", 9});

}  // namespace pellucid
