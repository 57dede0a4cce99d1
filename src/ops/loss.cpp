// Pointwise losses of an input and a target: mean squared, absolute, smooth and Huber errors, and
// binary cross entropy. Losses of class scores are in loss_class.cpp, those composed of other ops
// in loss_margin.cpp.
#include "ops/loss.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/reduce_lanes.h"
#include "kernels/tiles.h"

namespace pellucid {

int64_t reduction_attr(const Call& c, size_t i) {
  const int64_t how = c.integer(i);
  PELLUCID_CHECK(how >= reduction::kNone && how <= reduction::kSum, ValueError,
                 "{}: reduction must be 0 (none), 1 (mean) or 2 (sum), found {}.", c.name(), how);
  return how;
}

Tensor apply_reduction(const Tensor& losses, int64_t how) {
  return how == reduction::kMean ? losses.mean() : how == reduction::kSum ? losses.sum() : losses;
}

namespace {

// Elements of one task, and of one block whose losses stay in the first-level cache. Both fix the
// order of the sum.
constexpr int64_t kChunk = 32768, kBlock = kernels::kFoldBlock;

template <class T> double sum_block(const T* losses, int64_t n) {
  T sum = 0;
  kernels::at_isa([&sum, n, losses](auto) {
    sum = kernels::sum_lanes<T>(n, [losses](int64_t k) { return losses[k]; });
  });
  return static_cast<double>(sum);
}

template <class T>
double sum_chunk(kernels::InnerLoop loop, const void* formula, const void* const* in, int64_t begin,
                 int64_t end) {
  alignas(64) T losses[kBlock];
  double sum = 0;
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const void* at[] = {static_cast<const T*>(in[0]) + i, static_cast<const T*>(in[1]) + i};
    loop(formula, losses, at, n);
    sum += sum_block<T>(losses, n);
  }
  return sum;
}

// The same sum of losses that come in pieces.
class LossFold final : public kernels::PieceFold {
 public:
  LossFold(DType type, int64_t n, double divisor) : divisor_(divisor) {
    shape = {.outer = 1, .count = n, .columns = 1, .chunk = kChunk, .piece = kBlock};
    computed = type;
  }
  void begin(void* out, void*, int64_t) override {
    out_ = out;
    sums_.assign(static_cast<size_t>(shape.chunks()), 0);
  }
  std::unique_ptr<Task> task(const Place& place) override {
    return std::make_unique<Chunk>(computed, sums_[static_cast<size_t>(place.chunk)]);
  }
  void finish() override {
    double total = 0;
    for (const double s : sums_) total += s;
    total /= divisor_;
    if (out_) kernels::block_converter(computed, kFloat64)(out_, &total, 1);
  }

 private:
  struct Chunk final : Task {
    Chunk(DType type, double& sum) : type(type), sum(sum) {}
    void add(const void* const* rows, int64_t n, int64_t) override {
      const auto pieces = [&](auto zero) {
        using T = decltype(zero);
        for (int64_t i = 0; i < n; i += kBlock)
          sum += sum_block(static_cast<const T*>(rows[0]) + i, std::min(kBlock, n - i));
      };
      type == kFloat64 ? pieces(double{}) : pieces(float{});
    }
    void end() override {}
    const DType type;
    double& sum;
  };
  const double divisor_;
  void* out_ = nullptr;
  std::vector<double> sums_;
};

}  // namespace

double sum_of_losses(kernels::InnerLoop loop, const void* formula, DType type,
                     const void* const* in, int64_t n) {
  const auto run = type == kFloat64 ? sum_chunk<double> : sum_chunk<float>;
  if (n <= kChunk) return run(loop, formula, in, 0, n);
  const int64_t chunks = (n - 1) / kChunk + 1;
  std::vector<double> sums(static_cast<size_t>(chunks));
  parallel_chunks(chunks, [&](int64_t i) {
    sums[static_cast<size_t>(i)] =
        run(loop, formula, in, i * kChunk, std::min(n, (i + 1) * kChunk));
  });
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

void describe_sum_of_losses(const Call& c, const kernels::LoopTable& loops, const void* formula,
                            double work) {
  kernels::TileStep& step = *c.described();
  const DType type = c.out().dtype();
  const int64_t n = c.in(0).numel();
  if (!one_pass(c) || n == 0 || !step.set_context(formula, loops.functor_bytes)) return;
  step.loop = kernels::loop_for(loops, type);
  step.work = work;
  step.out_computed = type;
  step.input_count = 2;
  for (uint8_t i = 0; i < 2; ++i) step.inputs[i] = {.number = i, .computed = type, .through = type};
  const bool mean = c.integer(0) == reduction::kMean;
  step.fold = std::make_shared<LossFold>(type, n, mean ? static_cast<double>(n) : 1.0);
}

void store_number(const Tensor& out, double value) {
  kernels::block_converter(out.dtype(), kFloat64)(out.raw_data(), &value, 1);
}

int64_t loss_count(std::string_view op, IntArrayRef self, IntArrayRef target) {
  return detail::checked_numel(self == target ? Dims(self) : broadcast_sizes(op, self, target));
}

bool one_pass(const Call& c) {
  const detail::TensorImpl &x = c.in(0).impl(), &t = c.in(1).impl();
  const DType type = c.out().dtype();
  if ((type != kFloat32 && type != kFloat64) || x.dtype != type || t.dtype != type ||
      !(x.sizes == t.sizes))
    return false;
  // Any order will do for a sum, as long as both lie in the same one.
  return (x.is_contiguous() && t.is_contiguous()) || (x.strides == t.strides && is_dense(c.in(0)));
}

void infer_loss(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "target");
  const DType t = result_type(c);
  check_accepts(c, Accept::Floating, t);
  if (reduction_attr(c, 0) == reduction::kNone) return make_pointwise_output(c, t);
  loss_count(c.name(), c.in(0).sizes(), c.in(1).sizes());
  c.make_output({}, t);
}

void infer_loss_backward(Call& c) {
  for (size_t i = 0; i < 3; ++i)
    check_defined(c, i, i == 0 ? "grad_output" : i == 1 ? "self" : "target");
  const DType t = result_type(c);
  check_accepts(c, Accept::Floating, t);
  reduction_attr(c, 0);
  make_pointwise_output(c, t);
}

namespace {

struct SquaredError {
  static constexpr double kFlops = 2;
  template <class V> V value(V x, V t) const {
    const V d = x - t;
    return d * d;
  }
  template <class V> V grad(V g, V x, V t) const { return g * V(2) * (x - t); }
};

struct AbsoluteError {
  static constexpr double kFlops = 2;
  template <class V> V value(V x, V t) const { return abs(x - t); }
  template <class V> V grad(V g, V x, V t) const {
    const V d = x - t;
    return g * select(d > V(0), V(1), select(d < V(0), V(-1), V(0)));
  }
};

/// d² / (2 beta) where |d| < beta, |d| - beta / 2 beyond.
struct SmoothError {
  static constexpr double kFlops = 5;
  double beta, inverse;
  explicit SmoothError(const AttrReader& a) : beta(a.number(1)), inverse(beta > 0 ? 1 / beta : 0) {
    PELLUCID_CHECK(beta >= 0, ValueError, "smooth_l1_loss: beta must not be negative, found {}.",
                   beta);
  }
  template <class V> V value(V x, V t) const {
    const V z = abs(x - t);
    return select(z < V(beta), V(0.5) * z * z * V(inverse), z - V(0.5 * beta));
  }
  template <class V> V grad(V g, V x, V t) const {
    const V d = x - t;
    return select(d > V(beta), g, select(d < V(-beta), -g, g * d * V(inverse)));
  }
};

/// d² / 2 where |d| <= delta, delta (|d| - delta / 2) beyond.
struct HuberError {
  static constexpr double kFlops = 5;
  double delta;
  explicit HuberError(const AttrReader& a) : delta(a.number(1)) {
    PELLUCID_CHECK(delta > 0, ValueError, "huber_loss: delta must be positive, found {}.", delta);
  }
  template <class V> V value(V x, V t) const {
    const V z = abs(x - t);
    return select(z <= V(delta), V(0.5) * z * z, V(delta) * (z - V(0.5 * delta)));
  }
  template <class V> V grad(V g, V x, V t) const {
    const V d = x - t;
    return select(d > V(delta), g * V(delta), select(d < V(-delta), -(g * V(delta)), g * d));
  }
};

/// -(t log x + (1 - t) log(1 - x)) of probabilities x; logarithms are at least -100, as in PyTorch.
struct BinaryCrossEntropy {
  static constexpr double kFlops = 10;
  template <class V> static V bounded(V v) { return select(v > V(-100), v, V(-100)); }
  template <class V> V value(V x, V t) const {
    return (t - V(1)) * bounded(log1p(-x)) - t * bounded(log(x));
  }
  template <class V> V grad(V g, V x, V t) const {
    const V slope = (V(1) - x) * x;
    return g * (x - t) / select(slope > V(1e-12), slope, V(1e-12));
  }
  template <class V> V grad_target(V g, V x, V) const {
    return g * (bounded(log1p(-x)) - bounded(log(x)));
  }
};

/// The same of sigmoid(x): max(x, 0) - x t + log(1 + exp(-|x|)).
struct BinaryCrossEntropyLogits {
  static constexpr double kFlops = 10;
  template <class V> V value(V x, V t) const {
    return select(x > V(0), x, V(0)) - x * t + log1p(exp(-abs(x)));
  }
  template <class V> V grad(V g, V x, V t) const { return g * (sigmoid(x) - t); }
  template <class V> V grad_target(V g, V x, V) const { return -(g * x); }
};

void check_same_sizes(const Call& c) {
  PELLUCID_CHECK(c.has_in(0) && c.has_in(1), ValueError, "{}: 'self' and 'target' must be defined.",
                 c.name());
  PELLUCID_CHECK(
      c.in(0).sizes() == c.in(1).sizes(), ShapeError,
      "{}: 'target' has sizes {} but 'self' has {}; they must be equal. Reshape or expand one.",
      c.name(), c.in(1).sizes(), c.in(0).sizes());
}

// Whether every value is in [0, 1]; NaN is not.
template <class T> bool all_probabilities(const T* x, int64_t n) {
  const int64_t chunks = n == 0 ? 0 : (n - 1) / kChunk + 1;
  std::vector<uint8_t> good(static_cast<size_t>(chunks), 1);
  parallel_chunks(chunks, [&](int64_t i) {
    const T* from = x + i * kChunk;
    const int64_t count = std::min(kChunk, n - i * kChunk);
    bool ok = true;
    kernels::at_isa([&ok, from, count](auto) {
      ok = kernels::fold_lanes<T>(
               count, T(0),
               [from](int64_t k) { return from[k] >= T(0) && from[k] <= T(1) ? T(0) : T(1); },
               kernels::AddCombine{}) == T(0);
    });
    good[static_cast<size_t>(i)] = ok;
  });
  return std::all_of(good.begin(), good.end(), [](uint8_t g) { return g != 0; });
}

void check_probabilities(const Call& c) {
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0).to(compute_type(c.in(0).dtype())));
  const bool ok = x.dtype() == kFloat64 ? all_probabilities(x.raw<double>(), x.numel())
                                        : all_probabilities(x.raw<float>(), x.numel());
  PELLUCID_CHECK(ok, ValueError,
                 "binary_cross_entropy: every element of 'self' must be between 0 and 1. "
                 "For scores before the sigmoid use binary_cross_entropy_with_logits.");
}

void run_probabilities(Call& c) {
  check_probabilities(c);
  run_loss<BinaryCrossEntropy>(c);
}

Tensors compose_probabilities(const Call& c) {
  check_same_sizes(c);
  const int64_t how = reduction_attr(c, 0);
  if (!c.has_in(2)) return {bce_loss(c.in(0), c.in(1), how)};
  return {apply_reduction(bce_loss(c.in(0), c.in(1), reduction::kNone).mul(c.in(2)), how)};
}

Tensors compose_logits(const Call& c) {
  check_same_sizes(c);
  const int64_t how = reduction_attr(c, 0);
  const Tensor &x = c.in(0), &t = c.in(1);
  const bool weight = c.has_in(2), positive = c.has_in(3);
  if (!weight && !positive) return {bce_with_logits_loss(x, t, how)};
  Tensor losses;
  if (positive) {
    const Tensor of_positives = c.in(3).sub(1).mul(t).add(1);
    losses = rsub(t, 1).mul(x).sub(of_positives.mul(log_sigmoid(x)));
  } else {
    losses = bce_with_logits_loss(x, t, reduction::kNone);
  }
  return {apply_reduction(weight ? losses.mul(c.in(2)) : losses, how)};
}

void samples_of_loss(Samples& s) {
  s.add({sample_randn({2, 3}), sample_randn({2, 3})});
  s.add({sample_randn({2, 3}), sample_randn({2, 3}), 0});
  s.add({sample_randn({3, 2}).permute({1, 0}), sample_randn({2, 3}), 2});
  s.add({sample_randn({2, 3}), sample_randn({3}), 0});
  s.add({sample_randn({}), sample_randn({}), 1});
  s.add({sample_randn({0}), sample_randn({0}), 2});
  s.error({sample_randn({2, 3}), sample_randn({2})}, "do not broadcast");
  s.error({sample_randn({2, 3}), sample_randn({2, 3}), 3},
          "reduction must be 0 (none), 1 (mean) or 2 (sum), found 3");
  s.error({sample_ints({2}, 0, 3), sample_ints({2}, 0, 3)}, "takes floating tensors");
  s.large([] { return Values{randn({4096, 1024}), randn({4096, 1024})}; });
}

void samples_of_backward(Samples& s) {
  s.add({sample_randn({}), sample_randn({2, 3}), sample_randn({2, 3}), 1});
  s.add({sample_randn({2, 3}), sample_randn({2, 3}), sample_randn({2, 3}), 0});
  s.error({sample_randn({}), sample_randn({2, 3}), sample_randn({2}), 2}, "do not broadcast");
  s.large([] { return Values{randn({}), randn({4096, 1024}), randn({4096, 1024}), 1}; });
}

void samples_of_parameter(Samples& s) {
  samples_of_loss(s);
  s.add({sample_randn({2, 3}), sample_randn({2, 3}), 0, 0.5});
}

void samples_of_parameter_backward(Samples& s) {
  s.add({sample_randn({}), sample_randn({2, 3}), sample_randn({2, 3}), 1, 0.7});
  s.add({sample_randn({2, 3}), sample_randn({2, 3}), sample_randn({2, 3}), 0, 1.0});
  s.large([] { return Values{randn({}), randn({4096, 1024}), randn({4096, 1024}), 1, 1.0}; });
}

Tensor probabilities(IntArrayRef sizes) { return sample_uniform(sizes, 0.1, 0.9); }

void samples_of_probabilities(Samples& s) {
  s.add({probabilities({2, 3}), probabilities({2, 3})});
  s.add_no_grad({sample_ints({2, 3}, 0, 2).to(kFloat64), probabilities({2, 3})});
  s.error({sample_uniform({2, 3}, 1.1, 1.2), probabilities({2, 3})}, "must be between 0 and 1");
  s.large([] { return Values{rand({4096, 1024}), rand({4096, 1024})}; });
}

}  // namespace

extern constinit const OpDef mse_loss_backward_op;
extern constinit const OpDef l1_loss_backward_op;
extern constinit const OpDef smooth_l1_loss_backward_op;
extern constinit const OpDef huber_loss_backward_op;
extern constinit const OpDef bce_loss_backward_op;
extern constinit const OpDef bce_with_logits_loss_backward_op;

extern constinit const OpDef mse_loss_op = loss<SquaredError, mse_loss_backward_op>(
    "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "(self - target)²: each (0), their mean (1) or sum (2).", samples_of_loss);
extern constinit const OpDef mse_loss_backward_op = loss_backward<SquaredError,
                                                                  mse_loss_backward_op>(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    "2 grad_output (self - target), divided by their number for a mean.", samples_of_backward);

extern constinit const OpDef l1_loss_op = loss<AbsoluteError, l1_loss_backward_op>(
    "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "|self - target|: each (0), their mean (1) or sum (2).", samples_of_loss);
extern constinit const OpDef l1_loss_backward_op =
    loss_backward<AbsoluteError, l1_loss_backward_op>(
        "l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
        "grad_output sign(self - target), divided by their number for a mean.",
        samples_of_backward);

extern constinit const OpDef smooth_l1_loss_op = loss<SmoothError, smooth_l1_loss_backward_op>(
    "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
    "d² / (2 beta) where |d| < beta, |d| - beta / 2 beyond, with d = self - target.",
    [](Samples& s) {
      samples_of_parameter(s);
      s.add({sample_randn({4}), sample_randn({4}), 2, 0.0});
      s.error({sample_randn({4}), sample_randn({4}), 2, -1.0}, "beta must not be negative");
    });
extern constinit const OpDef smooth_l1_loss_backward_op =
    loss_backward<SmoothError, smooth_l1_loss_backward_op>(
        "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
        "float beta) -> Tensor",
        "The gradient of smooth_l1_loss by self.", samples_of_parameter_backward);

extern constinit const OpDef huber_loss_op = loss<HuberError, huber_loss_backward_op>(
    "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
    "d² / 2 where |d| <= delta, delta (|d| - delta / 2) beyond, with d = self - target.",
    [](Samples& s) {
      samples_of_parameter(s);
      s.error({sample_randn({4}), sample_randn({4}), 2, 0.0}, "delta must be positive");
    });
extern constinit const OpDef huber_loss_backward_op =
    loss_backward<HuberError, huber_loss_backward_op>(
        "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float "
        "delta) -> Tensor",
        "The gradient of huber_loss by self.", samples_of_parameter_backward);

extern constinit const OpDef bce_loss_op =
    checked(loss<BinaryCrossEntropy, bce_loss_backward_op>(
                "bce_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
                "-(t log x + (1 - t) log(1 - x)) of probabilities x.", samples_of_probabilities,
                run_probabilities),
            check_probabilities);
extern constinit const OpDef bce_loss_backward_op = loss_backward<BinaryCrossEntropy,
                                                                  bce_loss_backward_op>(
    "bce_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    "grad_output (x - t) / (x (1 - x)).", [](Samples& s) {
      s.add({sample_randn({}), probabilities({2, 3}), probabilities({2, 3}), 1});
      s.add({sample_randn({4}), probabilities({4}), probabilities({4}), 0});
      s.large([] { return Values{randn({}), rand({4096, 1024}), rand({4096, 1024}), 1}; });
    });
extern constinit const OpDef binary_cross_entropy_op = {
    .schema =
        "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> "
        "Tensor",
    .doc = "-(t log x + (1 - t) log(1 - x)) of probabilities x, times weight.",
    .kind = OpKind::Reduction,
    .compose = compose_probabilities,
    .samples = [](Samples& s) {
      samples_of_probabilities(s);
      s.add({probabilities({2, 3}), probabilities({2, 3}), sample_randn({3}), 0});
      s.error({probabilities({2, 3}), probabilities({3})},
              "'target' has sizes [3] but 'self' has [2, 3]");
    }};

extern constinit const OpDef bce_with_logits_loss_op =
    loss<BinaryCrossEntropyLogits, bce_with_logits_loss_backward_op>(
        "bce_with_logits_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
        "max(x, 0) - x t + log(1 + exp(-|x|)): binary cross entropy of sigmoid(x).",
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1), probabilities({2, 3})});
          s.add({sample_randn({2, 3}, 0.1), probabilities({2, 3}), 0});
          s.large([] { return Values{randn({4096, 1024}), rand({4096, 1024})}; });
        });
extern constinit const OpDef bce_with_logits_loss_backward_op =
    loss_backward<BinaryCrossEntropyLogits, bce_with_logits_loss_backward_op>(
        "bce_with_logits_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
        "reduction) -> Tensor",
        "grad_output (sigmoid(x) - t).", samples_of_backward);
extern constinit const OpDef binary_cross_entropy_with_logits_op = {
    .schema =
        "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? "
        "pos_weight=None, int reduction=1) -> Tensor",
    .doc =
        "Binary cross entropy of sigmoid(self), without overflow; pos_weight scales the part of "
        "positive targets.",
    .kind = OpKind::Reduction,
    .compose = compose_logits,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}, 0.1), probabilities({2, 3})});
      s.add({sample_randn({2, 3}, 0.1), probabilities({2, 3}), sample_randn({2, 3}), {}, 0});
      s.add({sample_randn({2, 3}, 0.1), probabilities({2, 3}), {}, probabilities({3}), 2});
      s.error({sample_randn({2, 3}), probabilities({3})},
              "'target' has sizes [3] but 'self' has [2, 3]");
      s.large([] { return Values{randn({4096, 1024}), rand({4096, 1024})}; });
    }};

}  // namespace pellucid
