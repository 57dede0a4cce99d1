// Losses of class scores: negative log likelihood and cross entropy, the latter fused from logits
// so that log-probabilities never reach memory. Scores are [C], [N, C] or [N, C, d1, …]; targets
// are class indices of the sizes without C, or (for cross entropy) probabilities of the same sizes.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/reduce_lanes.h"
#include "kernels/softmax.h"
#include "ops/formula.h"
#include "ops/loss.h"
#include "pellucid/autograd.h"

namespace pellucid {
namespace {

/// Scores seen as [items, classes, inner].
struct ScoreShape {
  int64_t items, classes, inner;
};

ScoreShape score_shape(IntArrayRef sizes) {
  if (sizes.size() == 1) return {1, sizes[0], 1};
  ScoreShape s{sizes[0], sizes[1], 1};
  for (size_t i = 2; i < sizes.size(); ++i) s.inner *= sizes[i];
  return s;
}

Dims target_sizes(IntArrayRef sizes) {
  Dims out(sizes);
  out.erase(sizes.size() == 1 ? 0 : 1);
  return out;
}

/// Checks sizes and dtypes of class targets for scores of the given sizes.
void check_class_targets(const Call& c, IntArrayRef sizes, const Tensor& target) {
  PELLUCID_CHECK(!sizes.empty(), ShapeError,
                 "{}: 'self' must have at least 1 dimension (classes), found sizes {}.", c.name(),
                 sizes);
  PELLUCID_CHECK(is_integral(target.dtype(), false), TypeError,
                 "{}: 'target' must hold class indices (int64), found {}.", c.name(),
                 target.dtype());
  PELLUCID_CHECK(target.sizes() == target_sizes(sizes).ref(), ShapeError,
                 "{}: 'target' must have sizes {}, found {} (self {}).", c.name(),
                 target_sizes(sizes), target.sizes(), sizes);
}

void check_class_weight(const Call& c, size_t i, int64_t classes) {
  if (!c.has_in(i)) return;
  PELLUCID_CHECK(c.in(i).dim() == 1 && c.in(i).numel() == classes, ShapeError,
                 "{}: 'weight' must have sizes [{}] (one per class), found {}.", c.name(), classes,
                 c.in(i).sizes());
}

Tensor class_indices(const Tensor& target) {
  return contiguous_values(target.dtype() == kInt64 ? target : target.to(kInt64));
}

void check_target_range(std::string_view name, const int64_t* target, int64_t n, int64_t classes,
                        int64_t ignored) {
  int64_t bad = 0;
  kernels::at_isa([&bad, target, n, classes, ignored](auto) {
    int64_t found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t r = 0; r < n; ++r)
      found |=
          static_cast<int64_t>((target[r] != ignored) & ((target[r] < 0) | (target[r] >= classes)));
    bad = found;
  });
  if (bad == 0) return;
  for (int64_t r = 0; r < n; ++r)
    PELLUCID_CHECK(
        target[r] == ignored || (target[r] >= 0 && target[r] < classes), IndexError,
        "{}: target {} at row {} is out of range; there are {} classes, and ignore_index is {}.",
        name, target[r], r, classes, ignored);
}

// What a user called: the op over rows is a part of it.
constexpr std::string_view kRowsAreOf = "cross_entropy_loss";

// The targets at input i of scores of those sizes, as OpDef::check looks at them.
void check_targets(std::string_view name, const Call& c, size_t i, IntArrayRef sizes,
                   int64_t ignored) {
  const Tensor target = class_indices(c.in(i));
  check_target_range(name, target.raw<int64_t>(), target.numel(), score_shape(sizes).classes,
                     ignored);
}

/// Class weights as float64, ones where there are none; the sum over the targets that count.
struct ClassWeights {
  ClassWeights(const Tensor& weight, int64_t ignored)
      : values(weight.defined() ? contiguous_values(weight.to(kFloat64)) : Tensor()),
        ignored(ignored) {}
  double of(int64_t target) const {
    return target == ignored ? 0 : values.defined() ? values.raw<double>()[target] : 1;
  }
  double total(const int64_t* target, int64_t n) const {
    if (!values.defined()) return static_cast<double>(n - std::count(target, target + n, ignored));
    double sum = 0;
    for (int64_t r = 0; r < n; ++r) sum += of(target[r]);
    return sum;
  }
  Tensor values;
  int64_t ignored;
};

/// What the gradient of a reduced loss is multiplied with.
double gradient_scale(int64_t how, const ClassWeights& w, const int64_t* target, int64_t n) {
  return how == reduction::kMean ? 1 / w.total(target, n) : 1;
}

double sum_of(const std::vector<double>& values) {
  return kernels::sum_lanes<double>(static_cast<int64_t>(values.size()),
                                    [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

/// Of index targets, with ops: the classes (0 where ignored), 1 where a target counts, and its
/// weight (0 where ignored).
struct PickedWeights {
  PickedWeights(const Tensor& target, const Tensor& weight, int64_t ignored, DType dtype)
      : classes(where(target.ne(ignored), target, zeros_like(target))),
        counted(target.ne(ignored).to(dtype)),
        weights(weight.defined() ? weight.to(dtype)
                                       .index_select(0, classes.reshape({-1}))
                                       .reshape(target.sizes())
                                       .mul(counted)
                                 : counted) {}
  Tensor classes, counted, weights;
};

// nll_loss: inputs self, target, weight; attributes reduction, ignore_index.

void infer_nll(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "target");
  check_floating(c, c.in(0), "self");
  check_class_targets(c, c.in(0).sizes(), c.in(1));
  check_class_weight(c, 2, score_shape(c.in(0).sizes()).classes);
  const bool each = reduction_attr(c, 0) == reduction::kNone;
  c.make_output(each ? c.in(1).sizes() : IntArrayRef(), c.in(0).dtype());
}

void run_nll(Call& c) {
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0)), target = class_indices(c.in(1));
  const ScoreShape s = score_shape(x.sizes());
  const int64_t n = s.items * s.inner, how = c.integer(0), *t = target.raw<int64_t>();
  check_target_range(c.name(), t, n, s.classes, c.integer(1));
  const ClassWeights weights(c.has_in(2) ? c.in(2) : Tensor(), c.integer(1));
  std::vector<double> losses(static_cast<size_t>(n));
  // Copies of what the loop needs: an element costs no more than a load.
  const auto read = kernels::block_converter(kFloat64, x.dtype());
  const int64_t step = element_size(x.dtype()), ignored = weights.ignored;
  const bool single = x.dtype() == kFloat32;
  const char* const scores = static_cast<const char*>(x.raw_data());
  const double* const weight = weights.values.defined() ? weights.values.raw<double>() : nullptr;
  double* const loss = losses.data();
  const auto at = [=](int64_t r) {  // the score of row r's target
    const int64_t place = s.inner == 1 ? r * s.classes + t[r]
                                       : (r / s.inner * s.classes + t[r]) * s.inner + r % s.inner;
    return scores + step * place;
  };
  parallel_for(0, n, 2048, [=](int64_t begin, int64_t end) {
    constexpr int64_t ahead = 32;  // every score lies in a cache line of its own
    for (int64_t r = begin; r < end; ++r) {
      if (r + ahead < end && t[r + ahead] != ignored) __builtin_prefetch(at(r + ahead));
      if (t[r] == ignored) continue;
      double score = 0;
      if (single)  // without the call, which costs more than the number
        score = *reinterpret_cast<const float*>(at(r));
      else
        read(&score, at(r), 1);
      loss[r] = -(weight ? weight[t[r]] : 1.0) * score;
    }
  });
  if (how == reduction::kNone)
    kernels::block_converter(c.out().dtype(), kFloat64)(c.out().raw_data(), losses.data(), n);
  else
    store_number(c.out(), sum_of(losses) * gradient_scale(how, weights, t, n));
}

/// The same with ops. `weight` may be undefined.
Tensor plain_nll(const Tensor& scores, const Tensor& target, const Tensor& weight, int64_t how,
                 int64_t ignored) {
  const ScoreShape s = score_shape(scores.sizes());
  const Tensor t = target.to(kInt64).reshape({s.items, 1, s.inner});
  const PickedWeights picked(t, weight, ignored, scores.dtype());
  const Tensor losses = scores.reshape({s.items, s.classes, s.inner})
                            .gather(1, picked.classes)
                            .mul(picked.weights)
                            .neg();
  if (how == reduction::kNone) return losses.reshape(target.sizes());
  return how == reduction::kSum ? losses.sum() : losses.sum().div(picked.weights.sum());
}

Tensors nll_vjp(const Vjp& v) {
  const Tensor& target = v.in(1);
  const Tensor weight = v.has_in(2) ? v.in(2) : Tensor();
  const int64_t how = v.integer(0), ignored = v.integer(1);
  Tensors out(3);
  if (v.needs(0)) out[0] = nll_loss_backward(v.grad, target, weight, v.in_sizes(0), how, ignored);
  if (v.needs(2)) {
    const auto formula = [&](const Tensors& in) -> Tensors {
      return {plain_nll(in[0], target, in[1], how, ignored)};
    };
    out[2] = plain_gradients(formula, {v.in(0), weight}, {false, true}, v.grads)[1];
  }
  return out;
}

// nll_loss_backward: inputs grad_output, target, weight; attributes the scores' sizes, reduction,
// ignore_index.

void infer_nll_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "target");
  check_floating(c, c.in(0), "grad_output");
  check_class_targets(c, c.ints(0), c.in(1));
  check_class_weight(c, 2, score_shape(c.ints(0)).classes);
  const IntArrayRef wanted =
      reduction_attr(c, 1) == reduction::kNone ? c.in(1).sizes() : IntArrayRef();
  PELLUCID_CHECK(c.in(0).sizes() == wanted, ShapeError,
                 "{}: 'grad_output' must have sizes {}, found {}.", c.name(), wanted,
                 c.in(0).sizes());
  c.make_output(c.ints(0), c.in(0).dtype());
}

void run_nll_backward(Call& c) {
  const NoGradGuard off;
  const Tensor grads = contiguous_values(c.in(0)).to(kFloat64), target = class_indices(c.in(1));
  const ScoreShape s = score_shape(c.ints(0));
  const int64_t n = s.items * s.inner, *t = target.raw<int64_t>();
  check_target_range(c.name(), t, n, s.classes, c.integer(2));
  const ClassWeights weights(c.has_in(2) ? c.in(2) : Tensor(), c.integer(2));
  const double scale = gradient_scale(c.integer(1), weights, t, n);
  const bool each = c.integer(1) == reduction::kNone;
  c.out().zero_();
  const auto write = kernels::block_converter(c.out().dtype(), kFloat64);
  const int64_t step = element_size(c.out().dtype());
  parallel_for(0, n, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (t[r] == weights.ignored) continue;
      const double g = -weights.of(t[r]) * scale * grads.raw<double>()[each ? r : 0];
      write(static_cast<char*>(c.out().raw_data()) +
                step * ((r / s.inner * s.classes + t[r]) * s.inner + r % s.inner),
            &g, 1);
    }
  });
}

Tensors nll_backward_vjp(const Vjp& v) {
  const Tensor& target = v.in(1);
  const Tensor weight = v.has_in(2) ? v.in(2) : Tensor();
  const int64_t how = v.integer(1), ignored = v.integer(2);
  Tensors out(3);
  if (v.needs(0))
    out[0] = nll_loss(v.grad, target, weight, how, ignored);  // the adjoint of a linear map
  if (v.needs(2)) {
    const ScoreShape s = score_shape(v.ints(0));
    const auto formula = [&](const Tensors& in) -> Tensors {
      const Tensor t = target.to(kInt64).reshape({s.items, 1, s.inner});
      const PickedWeights picked(t, in[1], ignored, in[0].dtype());
      const Tensor g = how == reduction::kMean  ? in[0].div(picked.weights.sum())
                       : how == reduction::kSum ? in[0]
                                                : in[0].reshape(t.sizes());
      return {zeros({s.items, s.classes, s.inner}, in[0].dtype())
                  .scatter(1, picked.classes, picked.weights.mul(g).neg())
                  .reshape(v.ints(0))};
    };
    out[2] = plain_gradients(formula, {v.in(0), weight}, {false, true}, v.grads)[1];
  }
  return out;
}

// Cross entropy of logits [rows, classes]: inputs logits, target, weight; attributes reduction,
// ignore_index, label_smoothing.

void infer_rows(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "target");
  check_floating(c, c.in(0), "self");
  check_dim(c, c.in(0), 2, "self");
  check_class_targets(c, c.in(0).sizes(), c.in(1));
  check_class_weight(c, 2, c.in(0).size(1));
  const double smoothing = c.number(2);
  PELLUCID_CHECK(smoothing >= 0 && smoothing <= 1, ValueError,
                 "cross_entropy_loss: label_smoothing must be between 0 and 1, found {}.",
                 smoothing);
  const bool each = reduction_attr(c, 0) == reduction::kNone;
  c.make_output(each ? c.in(1).sizes() : IntArrayRef(), c.in(0).dtype());
  if (c.wants(1))
    c.make_output(c.in(1).sizes(), compute_type(c.in(0).dtype()));
  else
    c.skip_output();
}

/// What the kernels take; `weight` and `target` are kept by the caller.
kernels::CrossEntropy rows_of(const Tensor& logits, const Tensor& target, const Tensor& weight,
                              int64_t ignored, double smoothing) {
  return {logits.dtype(),
          logits.raw_data(),
          logits.size(0),
          logits.size(1),
          target.raw<int64_t>(),
          weight.defined() ? weight.raw_data() : nullptr,
          ignored,
          smoothing};
}

Tensor kernel_weight(const Call& c, size_t i, DType dtype) {
  return c.has_in(i) ? contiguous_values(c.in(i).to(dtype)) : Tensor();
}

double sum_of(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.numel()));
  kernels::block_converter(kFloat64, t.dtype())(values.data(), t.raw_data(), t.numel());
  return sum_of(values);
}

void run_rows(Call& c) {
  const NoGradGuard off;
  const Tensor logits = contiguous_values(c.in(0)), target = class_indices(c.in(1)),
               weight = kernel_weight(c, 2, logits.dtype());
  const kernels::CrossEntropy e = rows_of(logits, target, weight, c.integer(1), c.number(2));
  check_target_range(kRowsAreOf, e.target, e.rows, e.classes, e.ignore_index);
  const int64_t how = c.integer(0);
  const DType computed = compute_type(logits.dtype());
  const Tensor losses = how == reduction::kNone ? c.out(0) : empty({e.rows}, logits.dtype());
  const Tensor log_sums = c.out(1).defined() ? c.out(1) : empty({e.rows}, computed),
               row_weights = empty({e.rows}, computed);
  kernels::cross_entropy(e, losses.raw_data(), log_sums.raw_data(), row_weights.raw_data());
  if (how == reduction::kNone) return;
  const double sum = sum_of(losses);
  store_number(c.out(), how == reduction::kMean ? sum / sum_of(row_weights) : sum);
}

/// The loss of each row with ops, before reduction, and the weights that a mean divides by.
Tensor plain_rows(const Tensor& logits, const Tensor& target, const Tensor& weight, int64_t how,
                  int64_t ignored, double smoothing) {
  const Tensor scores = logits.log_softmax(1);
  Tensor hit = plain_nll(scores, target, weight, how, ignored);
  if (smoothing == 0) return hit;
  const PickedWeights picked(target.to(kInt64), weight, ignored, logits.dtype());
  const Tensor spread =
      (weight.defined() ? scores.mul(weight) : scores).sum(1).neg().mul(picked.counted);
  const Tensor reduced = how == reduction::kNone  ? spread
                         : how == reduction::kSum ? spread.sum()
                                                  : spread.sum().div(picked.weights.sum());
  return hit.mul(1 - smoothing).add(reduced.mul(smoothing / static_cast<double>(logits.size(1))));
}

Tensors rows_vjp(const Vjp& v) {
  const Tensor& target = v.in(1);
  const Tensor weight = v.has_in(2) ? v.in(2) : Tensor();
  Tensors out(3);
  if (!v.grads[0].defined()) return out;
  if (v.needs(0))
    out[0] = cross_entropy_rows_backward(v.grad, v.in(0), target, weight, v.out(1), v.integer(0),
                                         v.integer(1), v.number(2));
  if (v.needs(2)) {
    const auto formula = [&](const Tensors& in) -> Tensors {
      return {plain_rows(in[0], target, in[1], v.integer(0), v.integer(1), v.number(2))};
    };
    out[2] = plain_gradients(formula, {v.in(0), weight}, {false, true}, v.grads)[1];
  }
  return out;
}

// Inputs grad_output, logits, target, weight, logsumexp; attributes as above.
void infer_rows_backward(Call& c) {
  for (size_t i : {0u, 1u, 2u, 4u})
    check_defined(c, i, i == 0 ? "grad_output" : i == 1 ? "self" : i == 2 ? "target" : "logsumexp");
  check_floating(c, c.in(1), "self");
  check_dim(c, c.in(1), 2, "self");
  check_same_dtype(c, c.in(0), c.in(1));
  check_class_targets(c, c.in(1).sizes(), c.in(2));
  check_class_weight(c, 3, c.in(1).size(1));
  const IntArrayRef wanted =
      reduction_attr(c, 0) == reduction::kNone ? c.in(2).sizes() : IntArrayRef();
  PELLUCID_CHECK(c.in(0).sizes() == wanted, ShapeError,
                 "{}: 'grad_output' must have sizes {}, found {}.", c.name(), wanted,
                 c.in(0).sizes());
  PELLUCID_CHECK(c.in(4).sizes() == c.in(2).sizes(), ShapeError,
                 "{}: 'logsumexp' must have sizes {}, found {}.", c.name(), c.in(2).sizes(),
                 c.in(4).sizes());
  PELLUCID_CHECK(c.in(4).dtype() == compute_type(c.in(1).dtype()), TypeError,
                 "{}: 'logsumexp' must be {}, found {}.", c.name(), compute_type(c.in(1).dtype()),
                 c.in(4).dtype());
  c.make_output(c.in(1).sizes(), c.in(1).dtype());
}

void run_rows_backward(Call& c) {
  const NoGradGuard off;
  const Tensor logits = contiguous_values(c.in(1)), target = class_indices(c.in(2)),
               weight = kernel_weight(c, 3, logits.dtype());
  const kernels::CrossEntropy e = rows_of(logits, target, weight, c.integer(1), c.number(2));
  check_target_range(kRowsAreOf, e.target, e.rows, e.classes, e.ignore_index);
  const int64_t how = c.integer(0);
  const double scale = gradient_scale(how, ClassWeights(weight, e.ignore_index), e.target, e.rows);
  const Tensor grads = how == reduction::kNone
                           ? contiguous_values(c.in(0))
                           : full({e.rows}, c.in(0).item().toDouble() * scale, logits.dtype());
  const Tensor log_sums = contiguous_values(c.in(4));
  kernels::cross_entropy_backward(e, log_sums.raw_data(), grads.raw_data(), c.out().raw_data());
}

Tensors rows_backward_vjp(const Vjp& v) {
  const Tensor& target = v.in(2);
  const int64_t how = v.integer(0), ignored = v.integer(1);
  const double smoothing = v.number(2);
  // g_r ((hit + share) softmax - hit onehot - smoothing / C weight), with hit = (1 - smoothing)
  // w_target; the saved logsumexp is a function of the logits here.
  const auto formula = [&](const Tensors& in) -> Tensors {
    const Tensor &logits = in[1], &weight = in[2];
    const int64_t rows = logits.size(0), classes = logits.size(1);
    const PickedWeights picked(target.to(kInt64).reshape({rows, 1}), weight, ignored,
                               logits.dtype());
    Tensor g = how == reduction::kNone ? in[0].reshape({rows, 1}) : in[0];
    if (how == reduction::kMean) g = g.div(picked.weights.sum());
    const Tensor hit = picked.weights.mul(1 - smoothing),
                 share = picked.counted.mul(smoothing / static_cast<double>(classes));
    const Tensor total =
        weight.defined() ? share.mul(weight.sum()) : share.mul(static_cast<double>(classes));
    const Tensor onehot = zeros({rows, classes}, logits.dtype())
                              .scatter(1, picked.classes, ones({rows, 1}, logits.dtype()));
    const Tensor spread = weight.defined() ? share.mul(weight) : share;
    return {logits.softmax(1).mul(hit.add(total)).sub(onehot.mul(hit)).sub(spread).mul(g)};
  };
  const Tensors g = plain_gradients(formula, {v.in(0), v.in(1), v.has_in(3) ? v.in(3) : Tensor()},
                                    {v.needs(0), v.needs(1), v.needs(3)}, v.grads);
  return {g[0], g[1], {}, g[2], {}};
}

template <int Flops> Cost score_cost(const Call& c) {
  return {Flops * static_cast<double>(c.in(c.in(0).dim() == 2 ? 0 : 1).numel()), moved_bytes(c)};
}

// The public cross entropy: attributes reduction, ignore_index, label_smoothing.

Tensor with_probabilities(const Call& c, int64_t how) {
  const Tensor &x = c.in(0), &target = c.in(1);
  const int64_t dim = x.dim() == 1 ? 0 : 1, classes = x.size(dim);
  const double smoothing = c.number(2);
  check_class_weight(c, 2, classes);
  Tensor p = target;
  if (smoothing > 0) p = target.mul(1 - smoothing).add(smoothing / static_cast<double>(classes));
  Tensor terms = x.log_softmax(dim).mul(p);
  if (c.has_in(2)) {
    Dims sizes(static_cast<size_t>(x.dim() - dim), 1);
    sizes[0] = classes;
    terms = terms.mul(c.in(2).reshape(sizes));
  }
  if (how == reduction::kNone) return terms.sum(dim).neg();
  const Tensor sum = terms.sum().neg();
  return how == reduction::kSum
             ? sum
             : sum.div(static_cast<double>(x.numel()) / static_cast<double>(classes));
}

Tensors compose_cross_entropy(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "target");
  const Tensor &x = c.in(0), &target = c.in(1);
  const int64_t how = reduction_attr(c, 0);
  PELLUCID_CHECK(
      x.dim() >= 1, ShapeError,
      "cross_entropy_loss: 'self' must have at least 1 dimension (classes), found sizes {}.",
      x.sizes());
  if (x.sizes() == target.sizes()) {
    PELLUCID_CHECK(target.is_floating_point(), TypeError,
                   "cross_entropy_loss: a 'target' of self's sizes {} holds probabilities and must "
                   "be floating, found {}.",
                   x.sizes(), target.dtype());
    return {with_probabilities(c, how)};
  }
  check_class_targets(c, x.sizes(), target);
  const Tensor weight = c.has_in(2) ? c.in(2) : Tensor();
  if (x.dim() == 2) return {cross_entropy_rows(x, target, weight, how, c.integer(1), c.number(2))};
  const int64_t classes = x.size(x.dim() == 1 ? 0 : 1);
  const Tensor rows = (x.dim() == 1 ? x : x.movedim(1, -1)).reshape({target.numel(), classes});
  const Tensor loss =
      cross_entropy_rows(rows, target.reshape({-1}), weight, how, c.integer(1), c.number(2));
  return {how == reduction::kNone ? loss.reshape(target.sizes()) : loss};
}

void samples_of_nll(Samples& s) {
  const Tensor t = sample_ints({4}, 0, 3);
  s.add({sample_randn({4, 3}), t});
  s.add({sample_randn({4, 3}), t, sample_uniform({3}, 0.5, 2), 1});
  s.add({sample_randn({4, 3}), t, sample_uniform({3}, 0.5, 2), 0, 1});
  s.add({sample_randn({2, 3, 2, 2}), sample_ints({2, 2, 2}, 0, 3), {}, 2});
  s.add({sample_randn({3}), sample_ints({}, 0, 3)});
  s.add({sample_randn({3, 4}).permute({1, 0}), t, {}, 1, 2});
  s.error({sample_randn({4, 3}), sample_ints({4}, 3, 4)},
          "target 3 at row 0 is out of range; there are 3 classes");
  s.error({sample_randn({4, 3}), sample_ints({3}, 0, 3)},
          "'target' must have sizes [4], found [3]");
  s.error({sample_randn({4, 3}), t, sample_randn({2})}, "'weight' must have sizes [3]");
}

void samples_of_cross_entropy(Samples& s) {
  samples_of_nll(s);
  s.error({sample_randn({4, 3}), sample_ints({4}, 3, 4)}, "cross_entropy_loss: target 3 at row 0");
  s.add({sample_randn({4, 3}), sample_ints({4}, 0, 3), sample_uniform({3}, 0.5, 2), 1, 1, 0.2});
  s.add({sample_randn({2, 3, 2}), sample_ints({2, 2}, 0, 3), {}, 0, 1, 0.1});
  s.add({sample_randn({4, 3}), sample_randn({4, 3}).softmax(1)});
  s.add({sample_randn({2, 3, 2}), sample_randn({2, 3, 2}).softmax(1), sample_uniform({3}, 0.5, 2),
         0, -100, 0.1});
  s.add({sample_randn({3}), sample_randn({3}).softmax(0), {}, 2});
  s.error({sample_randn({4, 3}), sample_ints({4, 3}, 0, 3)},
          "holds probabilities and must be floating");
  s.error({sample_randn({4, 3}), sample_ints({4}, 0, 3), {}, 1, -100, 1.5},
          "label_smoothing must be between 0 and 1");
  s.large([] { return Values{randn({4096, 1024}), randint(1024, {4096})}; });
}

}  // namespace

extern constinit const OpDef nll_loss_op = {
    .schema =
        "nll_loss|nll_loss_nd|nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int "
        "reduction=1, int "
        "ignore_index=-100) -> Tensor",
    .doc =
        "-weight[target] * self[target] of log-probabilities; a mean divides by the sum of the "
        "weights.",
    .kind = OpKind::Index,
    .infer = infer_nll,
    .cost =
        [](const Call& c) {
          return Cost{2.0 * static_cast<double>(c.in(1).numel()),
                      16.0 * static_cast<double>(c.in(1).numel())};
        },
    .kernel = run_nll,
    .check = [](const Call& c) { check_targets(c.name(), c, 1, c.in(0).sizes(), c.integer(1)); },
    .saved = Saved::Inputs,
    .vjp = nll_vjp,
    .samples =
        [](Samples& s) {
          samples_of_nll(s);
          s.large([] { return Values{randn({4096, 1024}), randint(1024, {4096})}; });
        }};
extern constinit const OpDef nll_loss_backward_op = {
    .schema =
        "nll_loss_backward(Tensor grad_output, Tensor target, Tensor? weight, int[] self_size, int "
        "reduction, int ignore_index) -> Tensor",
    .doc =
        "The gradient of nll_loss by self: -weight[target] grad_output at the target, 0 elsewhere.",
    .kind = OpKind::Index,
    .infer = infer_nll_backward,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(1).numel()), moved_bytes(c)};
        },
    .kernel = run_nll_backward,
    .check = [](const Call& c) { check_targets(c.name(), c, 1, c.ints(0), c.integer(2)); },
    .saved = Saved::Inputs,
    .vjp = nll_backward_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({}), sample_ints({4}, 0, 3), sample_uniform({3}, 0.5, 2),
                 Value::ints({4, 3}), 1, 1});
          s.add({sample_randn({2, 2}),
                 sample_ints({2, 2}, 0, 3),
                 {},
                 Value::ints({2, 3, 2}),
                 0,
                 -100});
          s.error({sample_randn({3}), sample_ints({4}, 0, 3), {}, Value::ints({4, 3}), 0, -100},
                  "'grad_output' must have sizes [4], found [3]");
        }};
extern constinit const OpDef cross_entropy_loss_op = {
    .schema =
        "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int "
        "ignore_index=-100, float label_smoothing=0.0) -> Tensor",
    .doc =
        "-weight[target] * log_softmax(self)[target]; with label_smoothing s the target is (1 - s) "
        "onehot + s / C.",
    .kind = OpKind::Reduction,
    .compose = compose_cross_entropy,
    .onnx = {"SoftmaxCrossEntropyLoss", 13},
    .samples = samples_of_cross_entropy};
extern constinit const OpDef cross_entropy_rows_op = {
    .schema =
        "cross_entropy_rows(Tensor self, Tensor target, Tensor? weight, int reduction, int "
        "ignore_index, float label_smoothing) -> (Tensor, Tensor _logsumexp)",
    .doc = "cross_entropy_loss of [rows, classes] with class targets, in one pass over the logits.",
    .kind = OpKind::Reduction,
    .infer = infer_rows,
    .cost = score_cost<5>,
    .kernel = run_rows,
    .check = [](const Call& c) { check_targets(kRowsAreOf, c, 1, c.in(0).sizes(), c.integer(1)); },
    .saved = Saved::Inputs | Saved::output(1),
    .vjp = rows_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), sample_ints({4}, 0, 3), sample_uniform({3}, 0.5, 2), 1, 1,
                 0.2});
          s.add({sample_randn({4, 3}), sample_ints({4}, 0, 3), {}, 0, -100, 0.0});
          s.add({sample_randn({4, 3}), sample_ints({4}, 0, 3), {}, 2, -100, 0.3});
          s.error({sample_randn({3}), sample_ints({}, 0, 3), {}, 1, -100, 0.0},
                  "must have 2 dimensions");
          s.large([] {
            return Values{randn({4096, 1024}), randint(1024, {4096}), {}, 1, -100, 0.0};
          });
        }};
extern constinit const OpDef cross_entropy_rows_backward_op = {
    .schema =
        "cross_entropy_rows_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
        "weight, Tensor logsumexp, int reduction, int ignore_index,"
        " float label_smoothing) -> Tensor",
    .doc =
        "The gradient of cross_entropy_rows by self: (softmax(self) - target) grad_output, in one "
        "pass.",
    .kind = OpKind::Reduction,
    .infer = infer_rows_backward,
    .cost = score_cost<4>,
    .kernel = run_rows_backward,
    .check = [](const Call& c) { check_targets(kRowsAreOf, c, 2, c.in(1).sizes(), c.integer(1)); },
    .saved = Saved::input(0) | Saved::input(1) | Saved::input(2) | Saved::input(3),
    .vjp = rows_backward_vjp,
    .samples =
        [](Samples& s) {
          const Tensor x = sample_randn({4, 3});
          // Differentiating treats logsumexp as a function of self, which finite differences of
          // this op do not.
          s.add_no_grad({sample_randn({}), x, sample_ints({4}, 0, 3), sample_uniform({3}, 0.5, 2),
                         x.logsumexp(1), 1, 1, 0.2});
          s.add_no_grad(
              {sample_randn({4}), x, sample_ints({4}, 0, 3), {}, x.logsumexp(1), 0, -100, 0.0});
          s.error({sample_randn({3}), x, sample_ints({4}, 0, 3), {}, x.logsumexp(1), 0, -100, 0.0},
                  "'grad_output' must have sizes [4], found [3]");
          s.large([] {
            const Tensor big = randn({4096, 1024});
            return Values{randn({}), big, randint(1024, {4096}), {}, big.logsumexp(1), 1,
                          -100,      0.0};
          });
        },
    .writes_over = 1 << 1};

}  // namespace pellucid
