// Dropout in its variants. The mask is never kept: backward draws the same numbers again from the
// saved seed and offset.
#include <bit>
#include <cmath>

#include "core/vjp_tools.h"
#include "kernels/random.h"
#include "ops/random.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

void infer_dropout(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  check_probability(c, c.number(0));
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_dropout(Call& c, PhiloxRange range) {
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0));
  kernels::dropout(x.dtype(), x.raw_data(), c.out().raw_data(), x.numel(), range, c.number(0));
}

// Seeds are 64 unsigned bits; attributes are signed.
int64_t as_attr(uint64_t v) { return std::bit_cast<int64_t>(v); }

Cost dropout_cost(const Call& c) { return elementwise_cost(c, 2); }

// Compositions: attributes p, train. Without effect they return the tensor itself, as PyTorch does.
bool has_effect(const Call& c) {
  check_defined(c, 0, "self");
  check_probability(c, c.number(0));
  return c.flag(1) && c.number(0) > 0 && c.in(0).numel() > 0;
}

/// 1 with probability 1 - p, else 0: for each element, or for each channel of [batch, channels, …].
Tensor keep_mask(const Call& c, bool by_channel) {
  const Tensor& x = c.in(0);
  Dims sizes(x.sizes());
  if (by_channel) {
    PELLUCID_CHECK(x.dim() >= 2, ShapeError,
                   "{}: 'self' must have at least 2 dimensions (batch, channels), found sizes {}.",
                   c.name(), x.sizes());
    for (size_t d = 2; d < sizes.size(); ++d) sizes[d] = 1;
  }
  return bernoulli(empty(sizes, x.dtype()), 1 - c.number(0));
}

// Dropped elements become -alpha', and an affine map keeps mean 0 and variance 1 (self-normalising
// networks).
Tensor alpha_scaled(const Call& c, const Tensor& mask) {
  constexpr double kAlpha = 1.7580993408473766;  // scale * alpha of SELU
  const double p = c.number(0);
  if (p == 1) return c.in(0).mul(0.0);
  const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  return c.in(0).mul(mask.mul(a)).add(mask.sub(1.0).mul(kAlpha * a).add(kAlpha * a * p));
}

void samples_of_composition(Samples& s) {
  s.add({sample_randn({2, 3, 2}), 0.4, false});
  s.add_no_grad({sample_randn({2, 3, 2}), 0.4, true});
  s.add_no_grad({sample_randn({2, 3, 2}), 1.0, true});
  s.error({sample_randn({2, 3}), 1.5, true}, "p must be between 0 and 1, found 1.5");
  s.large([] { return Values{randn({4096, 1024}), 0.5, true}; });
}

}  // namespace

extern constinit const OpDef dropout_train_op = {
    .schema = "dropout_train(Tensor self, float p) -> Tensor",
    .doc = "self / (1 - p) with probability 1 - p, else 0.",
    .kind = OpKind::Random,
    .infer = infer_dropout,
    .cost = dropout_cost,
    .kernel =
        [](Call& c) {
          run_dropout(c, {c.seed(), c.random_offset()});
        },
    .vjp = [](const Vjp& v) -> Tensors {
      return {dropout_train_backward(tape::last_use(v.grad), v.number(0), as_attr(v.seed()),
                                     as_attr(v.random_offset()))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4}), 0.4});
          s.add_no_grad({sample_randn({3, 4}).permute({1, 0}), 0.0});
          s.error({sample_randn({3}), -0.5}, "p must be between 0 and 1");
          s.large([] { return Values{randn({4096, 1024}), 0.5}; });
        },
    .random_count = [](const Call& c) { return kernels::mask_blocks_for(c.in(0).numel()); }};

extern constinit const OpDef dropout_train_backward_op = {
    .schema = "dropout_train_backward(Tensor grad_output, float p, int seed, int offset) -> Tensor",
    .doc = "grad_output times the mask and scale of the dropout that drew from (seed, offset).",
    .kind = OpKind::Opaque,
    .infer = infer_dropout,
    .cost = dropout_cost,
    .kernel =
        [](Call& c) {
          run_dropout(
              c, {std::bit_cast<uint64_t>(c.integer(1)), std::bit_cast<uint64_t>(c.integer(2))});
        },
    .vjp = [](const Vjp& v) -> Tensors {
      return {dropout_train_backward(v.grad, v.number(0), v.integer(1), v.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), 0.4, 7, 3});
          s.error({sample_randn({3}), -0.5, 7, 3}, "p must be between 0 and 1");
        },
    .writes_over = 1,
    .run_time_attrs = 0b110};  // seed and offset

extern constinit const OpDef dropout_op = {
    .schema = "dropout[_](Tensor self, float p, bool train) -> Tensor",
    .doc = "In training self / (1 - p) with probability 1 - p, else 0; self itself otherwise.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      if (!has_effect(c)) return {c.in(0)};
      return {c.number(0) == 1 ? c.in(0).mul(0.0) : dropout_train(c.in(0), c.number(0))};
    },
    .onnx = {"Dropout", 13},
    .samples = samples_of_composition};

extern constinit const OpDef feature_dropout_op = {
    .schema = "feature_dropout[_](Tensor self, float p, bool train) -> Tensor",
    .doc = "dropout of whole channels of [batch, channels, …].",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      if (!has_effect(c)) return {c.in(0)};
      const double p = c.number(0);
      return {p == 1 ? c.in(0).mul(0.0) : c.in(0).mul(keep_mask(c, true).mul(1 / (1 - p)))};
    },
    .samples = samples_of_composition};

extern constinit const OpDef alpha_dropout_op = {
    .schema = "alpha_dropout[_](Tensor self, float p, bool train) -> Tensor",
    .doc = "dropout that keeps mean and variance of self-normalising networks.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      return {has_effect(c) ? alpha_scaled(c, keep_mask(c, false)) : c.in(0)};
    },
    .samples = samples_of_composition};

extern constinit const OpDef feature_alpha_dropout_op = {
    .schema = "feature_alpha_dropout[_](Tensor self, float p, bool train) -> Tensor",
    .doc = "alpha_dropout of whole channels of [batch, channels, …].",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      return {has_effect(c) ? alpha_scaled(c, keep_mask(c, true)) : c.in(0)};
    },
    .samples = samples_of_composition};

}  // namespace pellucid
