// Piecewise activations: relu and its kin, hardtanh, hardswish, shrinking and thresholds, prelu.
// Gradients at the kinks are PyTorch's.
#include "core/vjp_tools.h"
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct Relu {
  template <class V> V value(V x) const { return select(x < V(0), V(0), x); }
};
/// value at and below the threshold.
struct Threshold {
  double threshold, replacement = 0;
  explicit Threshold(const AttrReader& a) : threshold(a.number(0)) {
    if (a.attrs().size() > 1) replacement = a.number(1);
  }
  template <class V> V value(V x) const { return select(x <= V(threshold), V(replacement), x); }
  template <class V> V grad(V g, V x) const { return select(x <= V(threshold), V(0), g); }
};
struct LeakyRelu {
  double slope;
  explicit LeakyRelu(const AttrReader& a) : slope(a.number(0)) {}
  template <class V> V value(V x) const { return select(x > V(0), x, x * V(slope)); }
  template <class V> V grad(V g, V x) const { return select(x > V(0), g, g * V(slope)); }
};
struct Hardtanh {
  double low, high;
  explicit Hardtanh(const AttrReader& a) : low(a.number(0)), high(a.number(1)) {}
  template <class V> V value(V x) const {
    const V y = select(x < V(low), V(low), x);
    return select(y > V(high), V(high), y);
  }
  template <class V> V grad(V g, V x) const {
    return select((x <= V(low)) | (x >= V(high)), V(0), g);
  }
};
struct Hardsigmoid {
  static constexpr double kFlops = 3;
  template <class V> V value(V x) const {
    const V y = x + V(3), low = select(y < V(0), V(0), y);
    return select(low > V(6), V(6), low) / V(6);
  }
  template <class V> V grad(V g, V x) const {
    return select((x > V(-3)) & (x < V(3)), g * V(1.0 / 6), V(0));
  }
};
struct Hardswish {
  static constexpr double kFlops = 4;
  template <class V> V value(V x) const {
    const V y = x + V(3), low = select(y < V(0), V(0), y);
    return x * select(low > V(6), V(6), low) / V(6);
  }
  template <class V> V grad(V g, V x) const {
    return select(x <= V(-3), V(0), select(x < V(3), g * (x * V(1.0 / 3) + V(0.5)), g));
  }
};
struct Hardshrink {
  double lambda;
  explicit Hardshrink(const AttrReader& a) : lambda(a.number(0)) {}
  template <class V> V value(V x) const {
    return select((x >= V(-lambda)) & (x <= V(lambda)), V(0), x);
  }
  template <class V> V grad(V g, V x) const {
    return select((x >= V(-lambda)) & (x <= V(lambda)), V(0), g);
  }
};
struct Softshrink {
  static constexpr double kFlops = 2;
  double lambda;
  explicit Softshrink(const AttrReader& a) : lambda(a.number(0)) {}
  template <class V> V value(V x) const {
    return select(x > V(lambda), x - V(lambda), select(x < V(-lambda), x + V(lambda), x * V(0)));
  }
  template <class V> V grad(V g, V x) const {
    return select((x >= V(-lambda)) & (x <= V(lambda)), V(0), g);
  }
};
struct Prelu {
  template <class V> V value(V x, V w) const { return select(x > V(0), x, x * w); }
};

void infer_softshrink(Call& c) {
  infer_pointwise<Result::Float, Accept::Floating>(c);
  PELLUCID_CHECK(c.number(0) >= 0, ValueError, "softshrink: lambd must not be negative, found {}.",
                 c.number(0));
}

Tensors prelu_vjp(const Vjp& v) {
  const Tensor &x = v.in(0), &w = v.in(1);
  const Tensor above = gt(x, 0);
  return {v.needs(0) ? where(above, v.grad, mul(v.grad, w)) : Tensor(),
          v.needs(1) ? where(above, 0, mul(v.grad, x)) : Tensor()};
}

// One weight for all, or one for each channel (dimension 1).
Tensors compose_prelu(const Call& c) {
  const Tensor &x = c.in(0), &w = c.in(1);
  check_defined(c, 0, "self");
  check_defined(c, 1, "weight");
  check_same_dtype(c, x, w);
  if (w.numel() == 1) return {_prelu_kernel(x, w.dim() == 0 ? w : w.reshape({}))};
  const int64_t channels = x.dim() >= 2 ? x.size(1) : 1;
  PELLUCID_CHECK(w.dim() == 1 && w.size(0) == channels, ShapeError,
                 "prelu: weight must have 1 element or one for each of the {} channels of self, "
                 "found sizes {} (self {}).",
                 channels, w.sizes(), x.sizes());
  Dims sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = channels;
  return {_prelu_kernel(x, w.reshape(sizes))};
}

void kink_samples(Samples& s) {  // away from -3, -1, -0.5, 0, 0.5, 1 and 3
  s.add({sample_ints({3, 4}, -4, 4) + sample_uniform({3, 4}, 0.1, 0.4)});
  s.add({(sample_ints({4, 3}, -4, 4) + sample_uniform({4, 3}, 0.6, 0.9)).t()});
  s.add({sample_uniform({}, 0.1, 0.4)});
  s.add({sample_uniform({0, 3}, 0, 1)});
  s.large([] { return std::vector<Value>{randn({4096, 1024}) * 2}; });
}

void floating_samples(Samples& s) {
  kink_samples(s);
  s.error({sample_ints({2}, 0, 3)}, "takes floating tensors");
}

void integer_samples(Samples& s) {
  kink_samples(s);
  s.add_no_grad({sample_ints({5}, -9, 9)});
  s.error({sample_randn({2}).gt(0)}, "takes number tensors");
}

void kink_backward_samples(Samples& s, std::initializer_list<Value> attributes) {
  const auto with = [&](Tensor g, Tensor x) {
    std::vector<Value> args = {std::move(g), std::move(x)};
    args.insert(args.end(), attributes.begin(), attributes.end());
    return args;
  };
  s.add(with(sample_randn({3, 4}), sample_ints({3, 4}, -4, 4) + sample_uniform({3, 4}, 0.1, 0.4)));
  s.add(with(sample_randn({4, 3}),
             (sample_ints({3, 4}, -4, 4) + sample_uniform({3, 4}, 0.1, 0.4)).t()));
  s.large([attributes = std::vector<Value>(attributes)] {
    std::vector<Value> args = {randn({4096, 1024}), randn({4096, 1024}) * 2};
    args.insert(args.end(), attributes.begin(), attributes.end());
    return args;
  });
}

}  // namespace

extern const OpDef hardtanh_backward_op, hardsigmoid_backward_op, hardswish_backward_op,
    hardshrink_backward_op, softshrink_backward_op;

extern constinit const OpDef relu_op = activation(unary_same<Relu, Accept::NoBool>(
    "relu[_](Tensor self) -> Tensor", "max(0, self)", Saved::Output,
    [](const Vjp& v) -> Tensors {
      return {threshold_backward(tape::last_use(v.grad), v.out(), 0)};
    },
    integer_samples, {"Relu", 14}));
extern constinit const OpDef relu6_op = {
    .schema = "relu6[_](Tensor self) -> Tensor",
    .doc = "min(max(0, self), 6)",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {hardtanh(c.in(0), 0, 6)}; },
    .samples = kink_samples,
    .describes = true,
    .activation = true,
};
extern constinit const OpDef threshold_op = activation(unary_same<Threshold, Accept::NoBool>(
    "threshold[_](Tensor self, Scalar threshold, Scalar value) -> Tensor",
    "self above the threshold, value elsewhere", Saved::Inputs,
    [](const Vjp& v) -> Tensors {
      return {threshold_backward(tape::last_use(v.grad), v.in(0), v.scalar(0))};
    },
    [](Samples& s) {
      s.add({sample_ints({3, 4}, -4, 4) + sample_uniform({3, 4}, 0.1, 0.4), 0.5, -2.0});
      s.add_no_grad({sample_ints({5}, -9, 9), 1, 7});
      s.large([] { return std::vector<Value>{randn({4096, 1024}), 0.5, 0.0}; });
    }));
extern constinit const OpDef threshold_backward_op = unary_backward<Threshold>(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    "grad_output where self > threshold, 0 elsewhere",
    [](Samples& s) { kink_backward_samples(s, {0.0}); });

extern constinit const OpDef leaky_relu_op = activation(unary_float<LeakyRelu, Accept::Floating>(
    "leaky_relu[_](Tensor self, Scalar negative_slope=0.01) -> Tensor",
    "self above 0, negative_slope * self below", Saved::Inputs,
    [](const Vjp& v) -> Tensors {
      return {leaky_relu_backward(v.grad, v.in(0), v.scalar(0), false)};
    },
    [](Samples& s) {
      floating_samples(s);
      s.add({sample_randn({3, 4}, 0.1), 0.2});
    },
    {"LeakyRelu", 16}));
extern constinit const OpDef leaky_relu_backward_op = unary_backward<LeakyRelu>(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
    "self_is_result) -> Tensor",
    "grad_output above 0, negative_slope * grad_output below; self or, for a positive slope, the "
    "result",
    [](Samples& s) {
      kink_backward_samples(s, {0.2, false});
    });

extern constinit const OpDef hardtanh_op = activation(unary_same<Hardtanh, Accept::NoBool>(
    "hardtanh[_](Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    "min(max(self, min_val), max_val)", Saved::Inputs, unary_vjp<Hardtanh, hardtanh_backward_op>,
    [](Samples& s) {
      integer_samples(s);
      s.add({sample_ints({3, 4}, -4, 4) + sample_uniform({3, 4}, 0.1, 0.4), -2, 2.5});
    }));
extern constinit const OpDef hardtanh_backward_op = unary_backward<Hardtanh>(
    "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    "grad_output inside the bounds, 0 elsewhere", [](Samples& s) {
      kink_backward_samples(s, {-1, 1});
    });

extern constinit const OpDef hardsigmoid_op =
    activation(unary<Hardsigmoid, hardsigmoid_backward_op, Accept::Floating>(
        "hardsigmoid[_](Tensor self) -> Tensor", "min(max(self + 3, 0), 6) / 6", floating_samples,
        {"HardSigmoid", 6}));
extern constinit const OpDef hardsigmoid_backward_op = unary_backward<Hardsigmoid>(
    "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
    "grad_output / 6 where -3 < self < 3", [](Samples& s) { kink_backward_samples(s, {}); });
extern constinit const OpDef hardswish_op =
    activation(unary<Hardswish, hardswish_backward_op, Accept::Floating>(
        "hardswish[_](Tensor self) -> Tensor", "self * min(max(self + 3, 0), 6) / 6",
        floating_samples, {"HardSwish", 14}));
extern constinit const OpDef hardswish_backward_op = unary_backward<Hardswish>(
    "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
    "grad_output * hardswish'(self)", [](Samples& s) { kink_backward_samples(s, {}); });
extern constinit const OpDef hardshrink_op =
    activation(unary<Hardshrink, hardshrink_backward_op, Accept::Floating>(
        "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
        "0 where abs(self) <= lambd, self elsewhere", floating_samples));
extern constinit const OpDef hardshrink_backward_op = unary_backward<Hardshrink>(
    "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
    "0 where abs(self) <= lambd, grad_out elsewhere",
    [](Samples& s) { kink_backward_samples(s, {0.5}); });

extern constinit const OpDef softshrink_op = {
    .schema = "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    .doc = "self moved towards 0 by lambd; 0 where abs(self) <= lambd",
    .kind = OpKind::Pointwise,
    .infer = infer_softshrink,
    .cost = formula_cost<Softshrink>,
    .kernel = run_formula<Softshrink, 1, kernels::FloatTypes, Result::Float>,
    .saved = Saved::Inputs,
    .vjp = unary_vjp<Softshrink, softshrink_backward_op>,
    .onnx = {"Shrink", 9},
    .samples =
        [](Samples& s) {
          floating_samples(s);
          s.error({sample_randn({2}), -1.0}, "lambd must not be negative");
        },
    .any_layout = true,
    .describes = true,
    .activation = true,
};
extern constinit const OpDef softshrink_backward_op = unary_backward<Softshrink>(
    "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    "0 where abs(self) <= lambd, grad_output elsewhere",
    [](Samples& s) { kink_backward_samples(s, {0.5}); });

extern constinit const OpDef prelu_kernel_op =
    activation(binary<Prelu, kernels::FloatTypes, Result::Float, Accept::Floating>(
        "_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
        "self above 0, weight * self below, with weight broadcast to self", Saved::Inputs,
        prelu_vjp, [](Samples& s) {
          s.add({sample_randn({3, 4}, 0.1), sample_randn({1, 4})});
          s.large([] { return std::vector<Value>{randn({4096, 1024}), rand({1, 1024})}; });
        }));
extern constinit const OpDef prelu_op = {
    .schema = "prelu(Tensor self, Tensor weight) -> Tensor",
    .doc = "self above 0, weight * self below; one weight, or one for each channel",
    .kind = OpKind::Pointwise,
    .compose = compose_prelu,
    .onnx = {"PRelu", 16},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}, 0.1), sample_randn({4})});
          s.add({sample_randn({2, 3, 2}, 0.1), sample_randn({3})});
          s.add({sample_randn({5}, 0.1), sample_randn({1})});
          s.error({sample_randn({3, 4}), sample_randn({3})}, "one for each of the 4 channels");
          s.large([] { return std::vector<Value>{randn({4096, 1024}), rand({1024})}; });
        },
};

}  // namespace pellucid
