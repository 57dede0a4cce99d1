// Bags of looked-up rows: embedding_bag, over three primitives. _sum_rows moves rows of one table
// to another and adds them up; turned round it is its own gradient.
#include <algorithm>

#include "kernels/bags.h"
#include "kernels/index.h"
#include "ops/conv.h"
#include "ops/index.h"
#include "pellucid/operators.h"

namespace pellucid {
namespace {

void check_vector(const Call& c, size_t i, std::string_view argument) {
  check_defined(c, i, argument);
  check_index_dtype(c, c.in(i));
  check_dim(c, c.in(i), 1, argument);
}

// The pairs of a call with inputs self, from, to: from in [0, rows of self), to in [0, rows).
struct Pairs {
  Pairs(const Call& c, const Tensor& self, int64_t rows)
      : from(contiguous_values(c.in(1).to(kInt64))), to(contiguous_values(c.in(2).to(kInt64))) {
    args = {from.numel(), self.size(1), rows, from.raw<int64_t>(), to.raw<int64_t>()};
    check(c, from, self.size(0), "from");
    check(c, to, rows, "to");
  }
  static void check(const Call& c, const Tensor& index, int64_t limit, std::string_view name) {
    const int64_t bad =
        kernels::first_bad_index(index.raw<int64_t>(), {index.numel()}, {1}, limit, false);
    PELLUCID_CHECK(bad < 0, IndexError, "{}: index {} in '{}' is out of range for {} rows.",
                   c.name(), index.raw<int64_t>()[bad], name, limit);
  }
  Tensor from, to;
  kernels::RowPairs args;
};

void check_pairs(const Call& c) { const Pairs pairs(c, c.in(0), c.integer(0)); }

void infer_rows(Call& c, DType dtype) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  check_dim(c, c.in(0), 2, "self");
  check_vector(c, 1, "from");
  check_vector(c, 2, "to");
  PELLUCID_CHECK(c.in(1).numel() == c.in(2).numel(), ShapeError,
                 "{}: 'from' and 'to' must be equally long, found sizes {} and {}.", c.name(),
                 c.in(1).sizes(), c.in(2).sizes());
  PELLUCID_CHECK(c.integer(0) >= 0, ValueError, "{}: rows must not be negative, found {}.",
                 c.name(), c.integer(0));
  c.make_output({c.integer(0), c.in(0).size(1)}, dtype);
}

void infer_sum_rows(Call& c) {
  infer_rows(c, c.in(0).dtype());
  if (!c.has_in(3)) return;
  check_same_dtype(c, c.in(0), c.in(3));
  PELLUCID_CHECK(c.in(3).sizes() == c.in(1).sizes(), ShapeError,
                 "{}: 'scale' must have the sizes of 'from', found {} and {}.", c.name(),
                 c.in(3).sizes(), c.in(1).sizes());
}

void run_sum_rows(Call& c) {
  const NoGradGuard off;
  const Tensor self = contiguous_values(widened(c.in(0)));
  const Tensor scale = c.has_in(3) ? contiguous_values(widened(c.in(3))) : Tensor();
  const Pairs pairs(c, self, c.integer(0));
  const bool narrow = self.dtype() != c.out().dtype();
  const Tensor out = narrow ? empty(c.out().sizes(), self.dtype()) : c.out();
  const auto run = [&]<class T>(T) {
    kernels::sum_rows<T>(pairs.args, self.raw<T>(), scale.defined() ? scale.raw<T>() : nullptr,
                         out.raw<T>());
  };
  if (self.dtype() == kFloat64)
    run(double{});
  else
    run(float{});
  if (narrow) c.out().copy_(out);
}

Tensors sum_rows_vjp(const Vjp& v) {
  Tensors out(4);
  const Tensor &from = v.in(1), &to = v.in(2);
  if (v.needs(0))
    out[0] = _sum_rows(v.grad, to, from, v.in_sizes(0)[0], v.has_in(3) ? v.in(3) : Tensor());
  if (v.needs(3)) out[3] = (v.grad.index_select(0, to) * v.in(0).index_select(0, from)).sum(-1);
  return out;
}

void run_argmax_rows(Call& c) {
  const NoGradGuard off;
  const Tensor self = contiguous_values(widened(c.in(0)));
  const Pairs pairs(c, self, c.integer(0));
  if (self.dtype() == kFloat64)
    kernels::argmax_rows(pairs.args, self.raw<double>(), c.out().raw<int64_t>());
  else
    kernels::argmax_rows(pairs.args, self.raw<float>(), c.out().raw<int64_t>());
}

// offsets [bags], or [bags + 1] with the end, of a list of n entries.
Tensor checked_offsets(const Call& c) {
  Tensor offsets = contiguous_values(c.in(0).to(kInt64));
  const int64_t n = c.integer(0), count = offsets.numel();
  const int64_t* const starts = offsets.raw<int64_t>();
  PELLUCID_CHECK(count == 0 || starts[0] == 0, ValueError,
                 "{}: the first bag must begin at 0, found {}.", c.name(), starts[0]);
  for (int64_t b = 0; b < count; ++b) {
    const bool last = b + 1 == count;
    const int64_t end = last ? n : starts[b + 1];
    PELLUCID_CHECK(starts[b] <= end && end <= n, ValueError,
                   "{}: offsets must not fall and end within the {} indices, found {} followed by "
                   "{}.",
                   c.name(), n, starts[b], end);
    PELLUCID_CHECK(!last || !c.flag(1) || starts[b] == n, ValueError,
                   "{}: with include_last_offset the last offset must be {}, the number of "
                   "indices, found {}.",
                   c.name(), n, starts[b]);
  }
  return offsets;
}

// The bag of each entry.
void run_bag_numbers(Call& c) {
  const Tensor offsets = checked_offsets(c);
  const int64_t n = c.integer(0), count = offsets.numel();
  const int64_t* const starts = offsets.raw<int64_t>();
  int64_t* const out = c.out().raw<int64_t>();
  for (int64_t b = 0; b < count; ++b)
    std::fill(out + starts[b], out + (b + 1 == count ? n : starts[b + 1]), b);
}

enum BagMode : int64_t { kBagSum, kBagMean, kBagMax };

void check_bags(const Call& c) {
  check_defined(c, 0, "weight");
  check_floating(c, c.in(0), "weight");
  check_dim(c, c.in(0), 2, "weight");
  check_vector(c, 1, "indices");
  check_vector(c, 2, "offsets");
  const int64_t mode = c.integer(1);
  PELLUCID_CHECK(mode >= kBagSum && mode <= kBagMax, ValueError,
                 "{}: mode must be 0 (sum), 1 (mean) or 2 (max), found {}.", c.name(), mode);
  PELLUCID_CHECK(!c.has_in(3) || mode == kBagSum, ValueError,
                 "{}: per_sample_weights need mode 0 (sum), found {}.", c.name(), mode);
  PELLUCID_CHECK(!c.has_in(3) || c.in(3).sizes() == c.in(1).sizes(), ShapeError,
                 "{}: per_sample_weights must have the sizes of indices, found {} and {}.",
                 c.name(), c.has_in(3) ? c.in(3).sizes() : IntArrayRef(), c.in(1).sizes());
  PELLUCID_CHECK(!c.flag(3) || c.in(2).numel() > 0, ValueError,
                 "{}: include_last_offset needs at least one offset.", c.name());
}

// Attributes: scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx.
Tensors embedding_bag_of(const Call& c) {
  check_bags(c);
  const Tensor& weight = c.in(0);
  const int64_t mode = c.integer(1);
  const bool end_too = c.flag(3);
  Tensor from = c.in(1), scale = c.has_in(3) ? c.in(3) : Tensor();
  Tensor to = _bag_numbers(c.in(2), from.numel(), end_too);
  const int64_t bags = c.in(2).numel() - (end_too ? 1 : 0);
  const Tensor all = to;
  if (c.has_attr(4)) {
    int64_t padding = c.integer(4);
    PELLUCID_CHECK(padding >= -weight.size(0) && padding < weight.size(0), IndexError,
                   "{}: padding_idx {} is out of range for {} rows.", c.name(), padding,
                   weight.size(0));
    if (padding < 0) padding += weight.size(0);
    const Tensor kept = from.ne(padding);
    from = from.masked_select(kept), to = to.masked_select(kept);
    if (scale.defined()) scale = scale.masked_select(kept);
  }
  const Tensor sizes =
      to.numel() > 0 ? bincount(to, {}, bags) : zeros({bags}, TensorOptions(kInt64));
  if (mode == kBagMax) {
    const Tensor best = _argmax_rows(weight.detach(), from, to, bags);
    const Tensor found = weight.gather(0, best.clamp_min(0));
    return {found.masked_fill(best.lt(0), 0), all, sizes, best};
  }
  const Tensor none = empty({0}, kInt64);
  Tensor sums;
  if (c.flag(0)) {  // embedding's gradient counts how often a row occurs
    const Tensor rows = embedding(weight, from, -1, true);
    sums = _sum_rows(rows, arange(from.numel(), TensorOptions(kInt64)), to, bags, scale);
  } else {
    sums = _sum_rows(weight, from, to, bags, scale);
  }
  if (mode == kBagMean) sums = sums / sizes.clamp_min(1).to(weight.dtype()).unsqueeze(1);
  return {sums, all, sizes, none};
}

}  // namespace

extern constinit const OpDef sum_rows_op = {
    .schema =
        "_sum_rows(Tensor self, Tensor from, Tensor to, int rows, Tensor? scale=None) -> Tensor",
    .doc = "out[to[i]] += scale[i] * self[from[i]], from zeros of [rows, columns of self].",
    .kind = OpKind::Index,
    .infer = infer_sum_rows,
    .cost =
        [](const Call& c) {
          const double read = static_cast<double>(c.in(1).numel() * c.in(0).size(1));
          const auto bytes = static_cast<double>(element_size(c.in(0).dtype()));
          return Cost{(c.has_in(3) ? 2 : 1) * read,
                      read * bytes + static_cast<double>(c.out().nbytes() + 2 * c.in(1).nbytes())};
        },
    .kernel = run_sum_rows,
    .check = check_pairs,
    .saved = Saved::crossed_input(0) | Saved::input(1) | Saved::input(2) | Saved::crossed_input(3),
    .vjp = sum_rows_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 3}), sample_ints({6}, 0, 5), index_vector({0, 0, 1, 3, 3, 3}), 4,
                 sample_randn({6})});
          s.add({sample_randn({5, 2}), sample_ints({4}, 0, 5), sample_ints({4}, 0, 3), 3});
          s.add({sample_randn({5, 2}), sample_ints({0}, 0, 5), sample_ints({0}, 0, 3), 3});
          s.error({sample_randn({5, 2}), index_vector({5}), index_vector({0}), 3},
                  "index 5 in 'from' is out of range for 5 rows");
          s.error({sample_randn({5, 2}), index_vector({0}), index_vector({3}), 3},
                  "index 3 in 'to' is out of range for 3 rows");
          s.error({sample_randn({5, 2}), index_vector({0, 1}), index_vector({0}), 3},
                  "must be equally long");
          s.large([] {
            return Values{randn({50000, 128}), randint(50000, {16384}),
                          arange(16384, kInt64).div(8, "floor"), 2048};
          });
        },
};

extern constinit const OpDef argmax_rows_op = {
    .schema = "_argmax_rows(Tensor self, Tensor from, Tensor to, int rows) -> Tensor",
    .doc =
        "For each result and column, which row from[i] with to[i] == result has the greatest "
        "value; -1 where there is none.",
    .kind = OpKind::Index,
    .infer = [](Call& c) { infer_rows(c, kInt64); },
    .cost =
        [](const Call& c) {
          const double read = static_cast<double>(c.in(1).numel() * c.in(0).size(1));
          return Cost{read, read * static_cast<double>(element_size(c.in(0).dtype())) +
                                static_cast<double>(c.out().nbytes())};
        },
    .kernel = run_argmax_rows,
    .check = check_pairs,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add(
              {sample_randn({5, 3}), sample_ints({6}, 0, 5), index_vector({0, 0, 1, 3, 3, 3}), 4});
          s.add({sample_randn({5, 2}), sample_ints({4}, 0, 5), sample_ints({4}, 0, 3), 3});
          s.error({sample_randn({5, 2}), index_vector({-1}), index_vector({0}), 3},
                  "index -1 in 'from' is out of range");
        },
};

extern constinit const OpDef bag_numbers_op = {
    .schema = "_bag_numbers(Tensor offsets, int count, bool include_last_offset=False) -> Tensor",
    .doc = "Which bag each of `count` entries belongs to, where bag b begins at offsets[b].",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_vector(c, 0, "offsets");
          PELLUCID_CHECK(c.integer(0) >= 0 && (c.integer(0) == 0 || c.in(0).numel() > 0),
                         ValueError, "{}: {} entries need at least one offset.", c.name(),
                         c.integer(0));
          c.make_output({c.integer(0)}, kInt64);
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_bag_numbers,
    .check = [](const Call& c) { checked_offsets(c); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({index_vector({0, 2, 2, 3}), 5});
          s.add({index_vector({0, 2, 5}), 5, true});
          s.error({index_vector({1, 2}), 5}, "must begin at 0, found 1");
          s.error({index_vector({0, 3, 2}), 5}, "must not fall");
          s.error({index_vector({0, 6}), 5}, "end within the 5 indices");
          s.error({index_vector({0, 3}), 5, true}, "the last offset must be 5");
        },
};

extern constinit const OpDef embedding_bag_op = {
    .schema =
        "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
        "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
        "bool include_last_offset=False, int? padding_idx=None) -> (Tensor, Tensor, Tensor, "
        "Tensor)",
    .doc =
        "The sum (mode 0), mean (1) or maximum (2) of the rows of each bag of indices; also the "
        "bag of each index, the size of each bag and, for maxima, which rows they came from. The "
        "gradient is dense.",
    .kind = OpKind::Index,
    .compose = embedding_bag_of,
    .samples =
        [](Samples& s) {
          for (const int64_t mode : {0, 1, 2})
            s.add({sample_randn({5, 3}), index_vector({1, 4, 0, 4, 2}), index_vector({0, 2, 2}),
                   false, mode});
          s.add({sample_randn({5, 3}), index_vector({1, 4, 0, 4}), index_vector({0, 3}), false, 0,
                 false, sample_randn({4})});
          s.add({sample_randn({5, 3}),
                 index_vector({1, 4, 0, 4}),
                 index_vector({0, 3, 4}),
                 false,
                 1,
                 false,
                 {},
                 true,
                 -1});
          s.add_no_grad({sample_randn({5, 3}), index_vector({1, 4, 4}), index_vector({0}), true});
          s.error({sample_randn({5, 3}), index_vector({5}), index_vector({0})},
                  "index 5 in 'from' is out of range");
          s.error({sample_randn({5, 3}), index_vector({1}), index_vector({0}), false, 3},
                  "mode must be 0 (sum), 1 (mean) or 2 (max)");
          s.error({sample_randn({5, 3}), index_vector({1}), index_vector({0}), false, 1, false,
                   sample_randn({1})},
                  "per_sample_weights need mode 0");
          s.large([] {
            return Values{randn({50000, 128}), randint(50000, {16384}),
                          arange(0, 16384, 8, kInt64)};
          });
        },
};

}  // namespace pellucid
