// Losses composed of other ops: divergences, likelihoods, and the margin losses of pairs and
// triplets.
#include <cmath>
#include <numbers>

#include "ops/loss.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

void check_inputs(const Call& c) {
  for (size_t i = 0; i < c.input_count(); ++i)
    PELLUCID_CHECK(c.has_in(i), ValueError, "{}: input {} is an undefined tensor.", c.name(), i);
}

Tensors compose_kl_div(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 0);
  const Tensor &x = c.in(0), &t = c.in(1);
  PELLUCID_CHECK(x.is_floating_point(), TypeError,
                 "kl_div: self must be floating, since it holds logarithms; found {}. Convert it "
                 "with .to(kFloat32).",
                 x.dtype());
  return {apply_reduction(c.flag(1) ? t.exp().mul(t.sub(x)) : xlogy(t, t).sub(t.mul(x)), how)};
}

// Attributes: margin, reduction.
Tensors compose_hinge(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 1);
  const Tensor &x = c.in(0), &t = c.in(1);
  const Tensor far = where(t.ne(1), rsub(x, c.number(0)).clamp_min(0.0), Scalar(0.0));
  return {apply_reduction(far.add(where(t.ne(-1), x, Scalar(0.0))), how)};
}

Tensors compose_ranking(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 1);
  return {apply_reduction(c.in(2).neg().mul(c.in(0).sub(c.in(1))).add(c.number(0)).clamp_min(0.0),
                          how)};
}

// Attributes: dim, eps.
Tensors compose_similarity(const Call& c) {
  check_inputs(c);
  const Dims sizes = broadcast_sizes(c.name(), c.in(0).sizes(), c.in(1).sizes());
  const int64_t dim = wrap_dim(c.name(), c.integer(0), static_cast<int64_t>(sizes.size()));
  const auto unit = [&](const Tensor& t) {
    const Tensor x = t.expand(sizes);
    return x.div(linalg_vector_norm(x, 2, dim, true).clamp_min(c.number(1)));
  };
  return {unit(c.in(0)).mul(unit(c.in(1))).sum(dim)};
}

Tensors compose_cosine_embedding(const Call& c) {
  check_inputs(c);
  constexpr double kEps = 1e-12;  // PyTorch's
  const int64_t how = reduction_attr(c, 1);
  const Tensor &a = c.in(0), &b = c.in(1), &t = c.in(2);
  PELLUCID_CHECK(t.dim() <= 1 && a.dim() == t.dim() + 1 && b.dim() == t.dim() + 1, ShapeError,
                 "cosine_embedding_loss: inputs [N, D] take a target [N], inputs [D] one without "
                 "dimensions; found {}, {} and {}.",
                 a.sizes(), b.sizes(), t.sizes());
  const int64_t dim = t.dim();
  const Tensor product = a.mul(b).sum(dim),
               lengths = a.mul(a).sum(dim).add(kEps).mul(b.mul(b).sum(dim).add(kEps)).sqrt();
  const Tensor cosine = product.div(lengths);
  const Tensor same = where(t.eq(1), rsub(cosine, 1.0), Scalar(0.0)),
               other = where(t.eq(-1), cosine.sub(c.number(0)).clamp_min(0.0), Scalar(0.0));
  return {apply_reduction(same.add(other), how)};
}

// Attributes: margin, p, eps, swap, reduction.
Tensors compose_triplet(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 4);
  const Tensor &anchor = c.in(0), &positive = c.in(1), &negative = c.in(2);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, c.number(1), c.number(2));
  };
  Tensor away = distance(anchor, negative);
  if (c.flag(3)) away = minimum(away, distance(positive, negative));
  return {
      apply_reduction(distance(anchor, positive).sub(away).add(c.number(0)).clamp_min(0.0), how)};
}

// Attributes: log_input, full, eps, reduction.
Tensors compose_poisson(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 3);
  const Tensor &x = c.in(0), &t = c.in(1);
  Tensor loss = c.flag(0) ? x.exp().sub(t.mul(x)) : x.sub(t.mul(x.add(c.number(2)).log()));
  if (c.flag(1)) {  // Stirling's approximation of log(t!), for t > 1
    const Tensor safe = where(t.gt(1), t, Scalar(1.0));
    const Tensor stirling =
        safe.mul(safe.log()).sub(safe).add(safe.mul(2 * std::numbers::pi).log().mul(0.5));
    loss = loss.add(where(t.gt(1), stirling, Scalar(0.0)));
  }
  return {apply_reduction(loss, how)};
}

// Attributes: full, eps, reduction.
Tensors compose_gaussian(const Call& c) {
  check_inputs(c);
  const int64_t how = reduction_attr(c, 2);
  const Tensor& x = c.in(0);
  Tensor variance = c.in(2);
  if (variance.dim() + 1 == x.dim() && variance.sizes() == x.sizes().slice(0, x.sizes().size() - 1))
    variance = variance.unsqueeze(-1);
  PELLUCID_CHECK(!variance.lt(0).any().item<bool>(), ValueError,
                 "gaussian_nll_loss: 'var' has negative elements.");
  // Bounded from below without a kink for the gradient, as PyTorch does it.
  const Tensor bound = variance.detach().clamp_min(c.number(1)).sub(variance.detach());
  variance = variance.add(bound);
  Tensor loss = variance.log().add(x.sub(c.in(1)).square().div(variance)).mul(0.5);
  if (c.flag(0)) loss = loss.add(0.5 * std::log(2 * std::numbers::pi));
  return {apply_reduction(loss, how)};
}

Tensor signs(IntArrayRef sizes) {
  return sample_ints(sizes, 0, 2).mul(2).sub(1).to(kFloat64).detach();
}

}  // namespace

extern constinit const OpDef kl_div_op = {
    .schema =
        "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    .doc = "target (log(target) - self) of log-probabilities self.",
    .kind = OpKind::Reduction,
    .compose = compose_kl_div,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}).log_softmax(1), sample_uniform({2, 3}, 0.1, 0.9)});
      s.add({sample_randn({2, 3}), sample_randn({2, 3}), 0}, {{"log_target", true}});
      s.add_no_grad({sample_randn({2, 3}), sample_ints({2, 3}, 0, 2).to(kFloat64), 2});
      s.error({sample_randn({2, 3}), sample_randn({2})}, "do not broadcast");
      s.error({sample_randn({2, 3}), sample_randn({2, 3}), 7}, "reduction must be");
      s.large([] { return Values{randn({4096, 1024}), rand({4096, 1024})}; });
    }};

extern constinit const OpDef soft_margin_loss_op = {
    .schema = "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    .doc = "log(1 + exp(-target * self)) for targets 1 and -1.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_inputs(c);
      const int64_t how = reduction_attr(c, 0);
      return {apply_reduction(log_sigmoid(c.in(1).mul(c.in(0))).neg(), how)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), signs({2, 3})});
          s.add({sample_randn({2, 3}), signs({2, 3}), 0});
          s.error({sample_randn({2, 3}), signs({2})}, "do not broadcast");
        }};

extern constinit const OpDef hinge_embedding_loss_op = {
    .schema =
        "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> "
        "Tensor",
    .doc = "self where the target is 1, max(0, margin - self) where it is -1.",
    .kind = OpKind::Reduction,
    .compose = compose_hinge,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}), sample_ints({2, 3}, 0, 2).mul(2).sub(1)});
      s.add({sample_randn({2, 3}), sample_ints({2, 3}, 0, 2).mul(2).sub(1), 0.5, 0});
    }};

extern constinit const OpDef margin_ranking_loss_op = {
    .schema =
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
        "reduction=1) -> Tensor",
    .doc = "max(0, -target (input1 - input2) + margin).",
    .kind = OpKind::Reduction,
    .compose = compose_ranking,
    .samples = [](Samples& s) {
      s.add({sample_randn({4}), sample_randn({4}), signs({4})});
      s.add({sample_randn({2, 3}), sample_randn({2, 3}), signs({2, 3}), 0.5, 0});
    }};

extern constinit const OpDef cosine_similarity_op = {
    .schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    .doc = "x1 · x2 / (max(|x1|, eps) max(|x2|, eps)) along a dim.",
    .kind = OpKind::Reduction,
    .compose = compose_similarity,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}), sample_randn({2, 3})});
      s.add({sample_randn({2, 3, 2}), sample_randn({3, 2}), -1, 1e-6});
      s.error({sample_randn({2, 3}), sample_randn({2})}, "do not broadcast");
      s.error({sample_randn({2, 3}), sample_randn({2, 3}), 2}, "dim 2 is out of range");
      s.large([] { return Values{randn({4096, 1024}), randn({4096, 1024})}; });
    }};

extern constinit const OpDef cosine_embedding_loss_op = {
    .schema =
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
        "reduction=1) -> Tensor",
    .doc = "1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1.",
    .kind = OpKind::Reduction,
    .compose = compose_cosine_embedding,
    .samples = [](Samples& s) {
      s.add({sample_randn({4, 3}), sample_randn({4, 3}), sample_ints({4}, 0, 2).mul(2).sub(1)});
      s.add({sample_randn({3}), sample_randn({3}), sample_ints({}, 0, 1).add(1), 0.2, 0});
      s.error({sample_randn({4, 3}), sample_randn({4, 3}), sample_ints({4, 3}, 0, 2)},
              "inputs [N, D] take a target [N]");
    }};

extern constinit const OpDef triplet_margin_loss_op = {
    .schema =
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
        "float p=2.0, float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
    .doc =
        "max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the p-norm distance "
        "along the last dim.",
    .kind = OpKind::Reduction,
    .compose = compose_triplet,
    .samples = [](Samples& s) {
      s.add({sample_randn({3, 4}), sample_randn({3, 4}), sample_randn({3, 4})});
      s.add({sample_randn({3, 4}), sample_randn({3, 4}), sample_randn({3, 4}), 0.7, 1.5, 1e-6, true,
             0});
    }};

extern constinit const OpDef poisson_nll_loss_op = {
    .schema =
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int "
        "reduction) -> Tensor",
    .doc =
        "exp(input) - target * input, or input - target log(input + eps); full adds Stirling's "
        "approximation of log(target!).",
    .kind = OpKind::Reduction,
    .compose = compose_poisson,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}), sample_uniform({2, 3}, 0.1, 4), true, false, 1e-8, 1});
      s.add({sample_uniform({2, 3}, 0.5, 2), sample_uniform({2, 3}, 0.1, 4), false, true, 1e-8, 0});
    }};

extern constinit const OpDef gaussian_nll_loss_op = {
    .schema =
        "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float "
        "eps=1e-06, int reduction=1) -> Tensor",
    .doc =
        "(log(var) + (input - target)² / var) / 2, with var at least eps; full adds log(2 pi) / 2.",
    .kind = OpKind::Reduction,
    .compose = compose_gaussian,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}), sample_randn({2, 3}), sample_uniform({2, 3}, 0.5, 2)});
      s.add(
          {sample_randn({2, 3}), sample_randn({2, 3}), sample_uniform({2}, 0.5, 2), true, 1e-6, 0});
      s.error({sample_randn({2}), sample_randn({2}), sample_uniform({2}, -2, -1)},
              "'var' has negative elements");
    }};

}  // namespace pellucid
