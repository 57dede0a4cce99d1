// Smooth activations: sigmoid, silu, mish, gelu, softplus, elu and their kin. The piecewise linear
// ones are in activation_hard.cpp.
#include "ops/formula.h"
#include "ops/formulas_samples.h"
#include "ops/gelu.h"

namespace pellucid {
namespace {

struct Sigmoid {
  static constexpr double kFlops = 5;
  static constexpr bool kGradFromOutput = true;
  template <class V> V value(V x) const { return sigmoid(x); }
  template <class V> V grad(V g, V y) const { return g * (V(1) - y) * y; }
};
struct Silu {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return x * sigmoid(x); }
  template <class V> V grad(V g, V x) const {
    const V s = sigmoid(x);
    return g * s * (V(1) + x * (V(1) - s));
  }
};
/// tanh(softplus(x)) = w / (w + 2) with w = e (e + 2), e = exp(x); 1 to the last digit beyond 20.
struct Mish {
  static constexpr double kFlops = 8;
  template <class V> V value(V x) const { return x * tanh_softplus(x); }
  template <class V> V grad(V g, V x) const {
    const V t = tanh_softplus(x);
    return g * (t + x * sigmoid(x) * (V(1) - t * t));
  }
};

void infer_gelu(Call& c) {
  gelu_is_tanh(c.name(), c.text(0));
  infer_pointwise<Result::Float, Accept::Floating>(c);
}

void run_gelu(Call& c) {
  if (gelu_is_tanh(c.name(), c.text(0)))
    run_formula<GeluTanh, 1, kernels::FloatTypes, Result::Float>(c);
  else
    run_formula<Gelu, 1, kernels::FloatTypes, Result::Float>(c);
}

void run_gelu_backward(Call& c) {
  if (gelu_is_tanh(c.name(), c.text(0)))
    run_grad<GeluTanh>(c);
  else
    run_grad<Gelu>(c);
}

/// log(1 + exp(beta x)) / beta, and x itself beyond the threshold.
struct Softplus {
  static constexpr double kFlops = 9;
  double beta, threshold, inverse;
  explicit Softplus(const AttrReader& a)
      : beta(a.number(0)), threshold(a.number(1)), inverse(1 / beta) {}
  template <class V> V value(V x) const {
    const V z = x * V(beta);
    return select(z > V(threshold), x, softplus(z) * V(inverse));
  }
  template <class V> V grad(V g, V x) const {
    const V z = x * V(beta);
    return select(z > V(threshold), g, g * sigmoid(z));
  }
};
struct LogSigmoid {
  static constexpr double kFlops = 9;
  template <class V> V value(V x) const { return log_sigmoid(x); }
  template <class V> V grad(V g, V x) const { return g * sigmoid(-x); }
};

/// scale x above 0, scale alpha (exp(input_scale x) - 1) below.
struct Elu {
  static constexpr double kFlops = 6;
  double below, above, inner;
  explicit Elu(const AttrReader& a)
      : below(a.number(0) * a.number(1)), above(a.number(1)), inner(a.number(2)) {}
  template <class V> V value(V x) const {
    return select(x <= V(0), V(below) * expm1(x * V(inner)), x * V(above));
  }
  template <class V> V grad(V g, V x) const {
    return select(x <= V(0), g * (V(inner) * (V(below) * exp(x * V(inner)))), g * V(above));
  }
};
/// The gradient from the result. A formula of its own: a flag within would keep the loop scalar.
struct EluFromResult : Elu {
  using Elu::Elu;
  template <class V> V grad(V g, V y) const {
    return select(y <= V(0), g * (V(inner) * (y + V(below))), g * V(above));
  }
};

void run_elu_backward(Call& c) { c.flag(3) ? run_grad<EluFromResult>(c) : run_grad<Elu>(c); }
Tensors elu_backward_vjp(const Vjp& v) {
  return v.flag(3) ? grad_vjp<EluFromResult>(v) : grad_vjp<Elu>(v);
}

// grad_output, then the numbers, then the tensor: the order of PyTorch's schema.
Tensors elu_vjp(const Vjp& v) {
  return {elu_backward(v.grad, v.scalar(0), v.scalar(1), v.scalar(2), false, v.in(0))};
}

struct Softsign {
  static constexpr double kFlops = 2;
  template <class V> V value(V x) const { return x / (V(1) + abs(x)); }
  template <class V> V grad(V g, V x) const {
    const V d = V(1) + abs(x);
    return g / (d * d) * (x * V(0) + V(1));  // the product keeps PyTorch's NaN at infinity
  }
};
struct Tanhshrink {
  static constexpr double kFlops = 6;
  template <class V> V value(V x) const { return x - tanh(x); }
  template <class V> V grad(V g, V x) const {
    const V t = tanh(x);
    return g * (t * t);
  }
};

constexpr double kSeluAlpha = 1.6732632423543772848170429916717,
                 kSeluScale = 1.0507009873554804934193349852946;

void gelu_samples(Samples& s) {
  unary_samples(s);
  s.add({sample_randn({3, 4})}, {{"approximate", "tanh"}});
  s.error({sample_randn({2})}, "approximate must be", {{"approximate", "fast"}});
  s.error({sample_ints({2}, 0, 3)}, "takes floating tensors");
}

void floating_samples(Samples& s) {
  unary_samples(s);
  s.error({sample_ints({2}, 0, 3)}, "takes floating tensors");
}

}  // namespace

extern const OpDef sigmoid_backward_op, silu_backward_op, mish_backward_op, gelu_backward_op,
    softplus_backward_op, logsigmoid_backward_op, elu_backward_op;

extern constinit const OpDef sigmoid_op = activation(
    unary<Sigmoid, sigmoid_backward_op>("sigmoid|special_expit[_](Tensor self) -> Tensor",
                                        "1 / (1 + exp(-self))", unary_samples, {"Sigmoid", 13}));
extern constinit const OpDef sigmoid_backward_op =
    unary_backward<Sigmoid>("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
                            "grad_output * output * (1 - output)", backward_samples);
extern constinit const OpDef silu_op = activation(unary<Silu, silu_backward_op, Accept::Floating>(
    "silu[_](Tensor self) -> Tensor", "self * sigmoid(self)", floating_samples));
extern constinit const OpDef silu_backward_op =
    unary_backward<Silu>("silu_backward(Tensor grad_output, Tensor self) -> Tensor",
                         "grad_output * silu'(self)", backward_samples);
extern constinit const OpDef mish_op = activation(unary<Mish, mish_backward_op, Accept::Floating>(
    "mish[_](Tensor self) -> Tensor", "self * tanh(softplus(self))", floating_samples,
    {"Mish", 18}));
extern constinit const OpDef mish_backward_op =
    unary_backward<Mish>("mish_backward(Tensor grad_output, Tensor self) -> Tensor",
                         "grad_output * mish'(self)", backward_samples);

extern constinit const OpDef gelu_op = {
    .schema = "gelu[_](Tensor self, *, str approximate='none') -> Tensor",
    .doc = "self * Phi(self), with the normal distribution function or its tanh approximation",
    .kind = OpKind::Pointwise,
    .infer = infer_gelu,
    .cost = formula_cost<Gelu>,
    .kernel = run_gelu,
    .saved = Saved::Inputs,
    .vjp = unary_vjp<Gelu, gelu_backward_op>,
    .onnx = {"Gelu", 20},
    .samples = gelu_samples,
    .any_layout = true,
    .describes = true,
    .activation = true,
};
extern constinit const OpDef gelu_backward_op = {
    .schema = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    .doc = "grad_output * gelu'(self)",
    .kind = OpKind::Pointwise,
    .infer = infer_gelu,
    .cost = formula_cost<GeluTanh>,
    .kernel = run_gelu_backward,
    .saved = Saved::Inputs,
    .vjp =
        [](const Vjp& v) {
          return gelu_is_tanh("gelu_backward", v.text(0)) ? grad_vjp<GeluTanh>(v)
                                                          : grad_vjp<Gelu>(v);
        },
    .samples =
        [](Samples& s) {
          backward_samples(s);
          s.add({sample_randn({3, 4}), sample_randn({3, 4})}, {{"approximate", "tanh"}});
        },
    .any_layout = true,
    .describes = true,
};

extern constinit const OpDef softplus_op =
    activation(unary<Softplus, softplus_backward_op, Accept::Floating>(
        "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
        "log(1 + exp(beta * self)) / beta; self where beta * self > threshold",
        [](Samples& s) {
          floating_samples(s);
          s.add({sample_randn({3, 4}, 0.1), 2.0, 1.0});
        },
        {"Softplus", 1}));
extern constinit const OpDef softplus_backward_op = unary_backward<Softplus>(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    "grad_output * sigmoid(beta * self)", [](Samples& s) {
      s.add({sample_randn({3, 4}), sample_randn({3, 4}), 1, 20});
      s.add({sample_randn({3, 4}), sample_randn({4, 3}).t(), 2.0, 1.0});
      s.large([] {
        return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024}), 1.0, 20.0};
      });
    });

extern constinit const OpDef log_sigmoid_op =
    activation(unary<LogSigmoid, logsigmoid_backward_op, Accept::Floating>(
        "log_sigmoid|logsigmoid(Tensor self) -> Tensor", "log(sigmoid(self))", floating_samples));
extern constinit const OpDef logsigmoid_backward_op =
    unary_backward<LogSigmoid>("logsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
                               "grad_output * sigmoid(-self)", backward_samples);

extern constinit const OpDef elu_op = activation(unary_float<Elu, Accept::Floating>(
    "elu[_](Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    "scale * self above 0, scale * alpha * (exp(input_scale * self) - 1) below", Saved::Inputs,
    elu_vjp,
    [](Samples& s) {
      floating_samples(s);
      s.add({sample_randn({3, 4}, 0.1), 1.5, 0.8, 0.5});
    },
    {"Elu", 6}));
extern constinit const OpDef elu_backward_op = {
    .schema =
        "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool "
        "is_result, Tensor self_or_result) -> Tensor",
    .doc = "grad_output * elu'(self), from self or from the result",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Float>,
    .cost = formula_cost<Elu>,
    .kernel = run_elu_backward,
    .saved = Saved::Inputs,
    .vjp = elu_backward_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), 1.5, 0.8, 0.5, false, sample_randn({3, 4}, 0.1)});
          s.add({sample_randn({3, 4}), 1.5, 0.8, 0.5, true, sample_randn({3, 4}, 0.1)});
          s.large([] {
            return std::vector<Value>{randn({4096, 1024}), 1.0, 1.0, 1.0, false,
                                      randn({4096, 1024})};
          });
        },
    .any_layout = true,
    .describes = true};
extern constinit const OpDef selu_op = {
    .schema = "selu[_](Tensor self) -> Tensor",
    .doc = "elu with the alpha and scale that keep mean 0 and variance 1",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {elu(c.in(0), kSeluAlpha, kSeluScale)}; },
    .onnx = {"Selu", 6},
    .samples = floating_samples,
    .describes = true,
    .activation = true,
};
extern constinit const OpDef celu_op = {
    .schema = "celu[_](Tensor self, Scalar alpha=1.0) -> Tensor",
    .doc = "self above 0, alpha * (exp(self / alpha) - 1) below",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.number(0) != 0, ValueError, "celu: alpha must not be 0.");
      return {elu(c.in(0), c.number(0), 1.0, 1.0 / c.number(0))};
    },
    .onnx = {"Celu", 12},
    .samples =
        [](Samples& s) {
          floating_samples(s);
          s.add({sample_randn({3, 4}, 0.1), 0.7});
          s.error({sample_randn({2}), 0.0}, "alpha must not be 0");
        },
    .activation = true,
};

extern constinit const OpDef softsign_op = activation(unary<Softsign>(
    "softsign(Tensor self) -> Tensor", "self / (1 + abs(self))", unary_samples, {"Softsign", 1}));
extern constinit const OpDef tanhshrink_op = activation(
    unary<Tanhshrink>("tanhshrink(Tensor self) -> Tensor", "self - tanh(self)", unary_samples));

}  // namespace pellucid
