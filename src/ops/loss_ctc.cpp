// ctc_loss: the negative log-likelihood of target sequences under every alignment with the inputs.
// Composed of ops, a few for each time step, so that its gradients are theirs.
#include <algorithm>
#include <limits>

#include "ops/common.h"
#include "pellucid/creation.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

constexpr double kNever = -1e30;  // log 0 that stays finite, so that gradients do too

struct Sequences {
  Tensor scores, targets;  // [T, N, C] and [N, S]
  IntArrayRef inputs, wanted;
  int64_t blank;
};

void check_lengths(const Call& c, const Sequences& s) {
  const auto batch = static_cast<size_t>(s.scores.size(1));
  PELLUCID_CHECK(s.inputs.size() == batch && s.wanted.size() == batch, ShapeError,
                 "ctc_loss: the batch has {} sequences but {} input lengths and {} target lengths "
                 "were given.",
                 batch, s.inputs.size(), s.wanted.size());
  PELLUCID_CHECK(s.blank >= 0 && s.blank < s.scores.size(2), ValueError,
                 "ctc_loss: blank must be in label range [0, {}), found {}.", s.scores.size(2),
                 s.blank);
  for (const int64_t n : s.inputs)
    PELLUCID_CHECK(n >= 0 && n <= s.scores.size(0), ValueError,
                   "ctc_loss: Expected input_lengths to have value at most {}, but got value {}.",
                   s.scores.size(0), n);
  for (const int64_t n : s.wanted)
    PELLUCID_CHECK(n >= 0, ValueError, "{}: target lengths must not be negative, found {}.",
                   c.name(), n);
}

// Targets as [N, S], also where they are one after another in a single row.
Tensor target_rows(const Tensor& targets, IntArrayRef lengths) {
  if (targets.dim() == 2) return targets.to(kInt64);
  int64_t most = 1, all = 0;
  for (const int64_t n : lengths) most = std::max(most, n), all += n;
  PELLUCID_CHECK(targets.dim() == 1 && targets.numel() >= all, ShapeError,
                 "ctc_loss: targets of sizes {} are fewer than the lengths' sum {}.",
                 targets.sizes(), all);
  const Tensor rows = zeros({static_cast<int64_t>(lengths.size()), most}, kInt64);
  int64_t at = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    rows.select(0, static_cast<int64_t>(i))
        .narrow(0, 0, lengths[i])
        .copy_(targets.narrow(0, at, lengths[i]));
    at += lengths[i];
  }
  return rows;
}

Tensor shifted(const Tensor& x, int64_t by) {
  return cat({full({x.size(0), by}, kNever, x.dtype()), x.narrow(1, 0, x.size(1) - by)}, 1);
}

Tensor column_of(IntArrayRef values) { return tensor(values, kInt64).unsqueeze(1); }

// A sequence's places are its labels with blanks before, between and behind them; alpha is the
// log-probability of all alignments that end at a place.
Tensor losses(const Sequences& s) {
  const int64_t steps = s.scores.size(0), batch = s.scores.size(1),
                places = 2 * s.targets.size(1) + 1;
  const Tensor labels = full({batch, places}, s.blank, kInt64);
  labels.slice(1, 1, places, 2).copy_(s.targets);
  // From a place one can stay, go one on, or skip a blank between two different labels.
  const Tensor skips = zeros({batch, places}, kBool);
  if (places > 2) {
    const Tensor later = labels.slice(1, 2);
    skips.slice(1, 2).copy_(
        later.ne(s.blank).logical_and(later.ne(labels.slice(1, 0, places - 2))));
  }
  const Tensor emitted = s.scores.gather(2, labels.unsqueeze(0).expand({steps, batch, places}));
  const Tensor never = full({}, kNever, s.scores.dtype());
  Tensor alpha = where(arange(places).lt(2), emitted.select(0, 0), never);
  const Tensor lengths = column_of(s.inputs);
  for (int64_t t = 1; t < steps; ++t) {
    const Tensor one = shifted(alpha, 1),
                 two = places > 1 ? where(skips, shifted(alpha, 2), never) : one;
    const Tensor moved = stack({alpha, one, two}, 0).logsumexp(0).add(emitted.select(0, t));
    alpha = where(lengths.gt(t), moved, alpha);
  }
  const Tensor ends = column_of(s.wanted).mul(2);
  const Tensor before = where(ends.gt(0), alpha.gather(1, ends.sub(1).clamp_min(0)), never);
  return cat({alpha.gather(1, ends), before}, 1).logsumexp(1).neg();
}

Tensor compose_ctc(const Call& c) {
  check_defined(c, 0, "log_probs");
  check_defined(c, 1, "targets");
  check_floating(c, c.in(0), "log_probs");
  const bool alone = c.in(0).dim() == 2;
  PELLUCID_CHECK(alone || c.in(0).dim() == 3, ShapeError,
                 "ctc_loss: log_probs must be [T, N, C] or [T, C], found sizes {}.",
                 c.in(0).sizes());
  Sequences s{alone ? c.in(0).unsqueeze(1) : c.in(0), {}, c.ints(0), c.ints(1), c.integer(2)};
  check_lengths(c, s);
  s.targets = target_rows(alone ? c.in(1).reshape({1, -1}) : c.in(1), s.wanted);
  PELLUCID_CHECK(std::all_of(s.wanted.begin(), s.wanted.end(),
                             [&](int64_t n) { return n <= s.targets.size(1); }),
                 ShapeError, "ctc_loss: target lengths {} pass the targets' sizes {}.", s.wanted,
                 s.targets.sizes());
  Tensor loss = losses(s);
  const Scalar impossible = c.flag(4) ? 0.0 : std::numeric_limits<double>::infinity();
  loss = loss.masked_fill(loss.gt(-kNever / 2), impossible);
  if (c.integer(3) == 1)
    return loss.div(tensor(s.wanted, kInt64).clamp_min(1).to(loss.dtype())).mean();
  return c.integer(3) == 2 ? loss.sum() : alone ? loss.select(0, 0) : loss;
}

}  // namespace

extern constinit const OpDef ctc_loss_op = {
    .schema =
        "ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int "
        "blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
    .doc =
        "-log of the probability of all alignments of the targets with log_probs [T, N, C]; a mean "
        "of losses by target length.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_ctc(c)}; },
    .samples =
        [](Samples& s) {
          const Tensor scores = sample_randn({4, 2, 3}).log_softmax(2);
          s.add({scores, sample_ints({2, 2}, 1, 3), Value::ints({4, 3}), Value::ints({2, 1})});
          s.add({scores, sample_ints({3}, 1, 3), Value::ints({4, 4}), Value::ints({2, 1}), 0, 0});
          s.add({scores.select(1, 0), sample_ints({1}, 1, 3), Value::ints({4}), Value::ints({1}), 0,
                 2});
          s.error({scores, sample_ints({2, 2}, 1, 3), Value::ints({4}), Value::ints({2, 1})},
                  "the batch has 2 sequences but 1 input lengths");
          s.error({scores, sample_ints({2, 2}, 1, 3), Value::ints({5, 4}), Value::ints({2, 1})},
                  "at most 4, but got value 5");
          s.error({scores, sample_ints({2, 2}, 1, 3), Value::ints({4, 4}), Value::ints({2, 1}), 3},
                  "blank must be in label range [0, 3), found 3");
        },
};

}  // namespace pellucid
