// Distinct values (unique, unique_consecutive) and positions in sorted sequences (searchsorted,
// bucketize). All are without gradients.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "kernels/sort.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

Cost read_cost(const Call& c) {
  return {static_cast<double>(c.in(0).numel()), static_cast<double>(c.in(0).nbytes())};
}

Tensor vector_of(const std::vector<int64_t>& values) {
  const Tensor t = empty({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), t.raw<int64_t>());
  return t;
}

/// Which rows of a list are kept, the number of the kept row that each stands for, and how many
/// stand for each.
struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

// Groups equal neighbours of rows taken in `order`; equal(a, b) compares two rows.
template <class Equal> Groups group_runs(const std::vector<int64_t>& order, Equal equal) {
  Groups g;
  g.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !equal(order[i - 1], order[i])) {
      g.first.push_back(order[i]);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(g.first.size()) - 1;
  }
  return g;
}

// Rows of `width` values; sorted lexicographically first unless only neighbours are compared.
Groups group_rows(const Tensor& rows, bool sort) {
  const int64_t n = rows.size(0), width = n ? rows.numel() / n : 0;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return visit(rows.dtype(), [&](auto v) {
    using T = decltype(v);
    using V = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
    const T* data = rows.raw<T>();
    const auto at = [&](int64_t row, int64_t i) { return static_cast<V>(data[row * width + i]); };
    if (sort)
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        for (int64_t i = 0; i < width; ++i) {
          if (at(a, i) < at(b, i)) return true;
          if (at(b, i) < at(a, i)) return false;
        }
        return false;
      });
    return group_runs(order, [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < width; ++i)
        if (at(a, i) != at(b, i)) return false;
      return true;
    });
  });
}

// Copies the kept rows.
Tensor take_rows(const Tensor& rows, const std::vector<int64_t>& which) {
  Dims sizes(rows.sizes());
  sizes[0] = static_cast<int64_t>(which.size());
  const Tensor out = empty(sizes, rows.dtype());
  const size_t bytes = rows.size(0) ? rows.nbytes() / static_cast<size_t>(rows.size(0)) : 0;
  for (size_t i = 0; i < which.size() && bytes > 0; ++i)
    std::memcpy(static_cast<char*>(out.raw_data()) + i * bytes,
                static_cast<const char*>(rows.raw_data()) + static_cast<size_t>(which[i]) * bytes,
                bytes);
  return out;
}

void set_results(Call& c, Tensor output, Tensor inverse, Tensor counts) {
  c.set_output(0, std::move(output));
  c.set_output(1, inverse.defined() ? std::move(inverse) : empty({0}, kInt64));
  c.set_output(2, counts.defined() ? std::move(counts) : empty({0}, kInt64));
}

// Groups along a dim: the rows are what is left of the tensor at one index of it.
void run_along_dim(Call& c, int64_t dim, bool sort, bool inverse, bool counts) {
  const Tensor moved = c.in(0).detach().movedim(dim, 0);
  const Tensor rows = contiguous_values(moved);
  PELLUCID_CHECK(rows.numel() > 0 || rows.size(0) == 0, ValueError,
                 "{}: self {} has entries without elements along dim {}.", c.name(),
                 c.in(0).sizes(), dim);
  const Groups g = group_rows(rows, sort);
  set_results(c, take_rows(rows, g.first).movedim(0, dim).contiguous(),
              inverse ? vector_of(g.inverse) : Tensor(), counts ? vector_of(g.counts) : Tensor());
}

void infer_unique(Call& c) {
  check_defined(c, 0, "self");
  const size_t dim_at = c.attrs().size() - 1;
  PELLUCID_CHECK(!c.has_attr(dim_at) || c.in(0).dim() > 0, ShapeError,
                 "{}: a tensor without dimensions has no dim {}.", c.name(), c.integer(dim_at));
  c.make_unknown_output(c.in(0).dtype());
  c.make_unknown_output(kInt64);
  c.make_unknown_output(kInt64);
}

// Attributes: sorted, return_inverse, return_counts, dim.
void run_unique(Call& c) {
  if (c.has_attr(3))
    return run_along_dim(c, wrap_dim("unique", c.integer(3), c.in(0).dim()), true, c.flag(1),
                         c.flag(2));
  const Tensor self = contiguous_values(c.in(0).detach());
  const Tensor inverse = c.flag(1) ? empty(self.sizes(), kInt64) : Tensor();
  const kernels::Unique u = kernels::unique(self.dtype(), self.raw_data(), self.numel(),
                                            inverse.defined() ? inverse.raw<int64_t>() : nullptr);
  set_results(c, take_rows(self.view({-1}), u.first), inverse,
              c.flag(2) ? vector_of(u.counts) : Tensor());
}

// Attributes: return_inverse, return_counts, dim.
void run_unique_consecutive(Call& c) {
  if (c.has_attr(2))
    return run_along_dim(c, wrap_dim("unique_consecutive", c.integer(2), c.in(0).dim()), false,
                         c.flag(0), c.flag(1));
  const Tensor flat = contiguous_values(c.in(0).detach()).view({-1});
  const Groups g = group_rows(flat, false);
  set_results(c, take_rows(flat, g.first),
              c.flag(0) ? vector_of(g.inverse).view(c.in(0).sizes()) : Tensor(),
              c.flag(1) ? vector_of(g.counts) : Tensor());
}

bool wants_right(const Call& c) {
  if (!c.has_attr(2)) return c.flag(1);
  PELLUCID_CHECK(c.text(2) == "left" || c.text(2) == "right", ValueError,
                 "searchsorted: side must be 'left' or 'right', found '{}'.", c.text(2));
  PELLUCID_CHECK(!(c.text(2) == "left" && c.flag(1)), ValueError,
                 "searchsorted: side 'left' and right=True contradict each other.");
  return c.text(2) == "right";
}

void infer_searchsorted(Call& c) {
  check_defined(c, 0, "sorted_sequence");
  check_defined(c, 1, "self");
  const Tensor &sequence = c.in(0), &values = c.in(1);
  PELLUCID_CHECK(sequence.dim() >= 1, ShapeError,
                 "searchsorted: sorted_sequence needs at least 1 dimension.");
  if (sequence.dim() > 1) {
    const size_t batch = sequence.sizes().size() - 1;
    PELLUCID_CHECK(
        values.sizes().size() == batch + 1 &&
            values.sizes().slice(0, batch) == sequence.sizes().slice(0, batch),
        ShapeError,
        "searchsorted: all sizes but the last must agree, found sorted_sequence {} and self {}.",
        sequence.sizes(), values.sizes());
  }
  if (c.has_in(2))
    PELLUCID_CHECK(
        c.in(2).sizes() == sequence.sizes() && c.in(2).dtype() == kInt64, TypeError,
        "searchsorted: sorter must be int64 with the sizes of sorted_sequence {}, found {}.",
        sequence.sizes(), describe(c.in(2)));
  wants_right(c);
  c.make_output(values.sizes(), c.flag(0) ? kInt32 : kInt64);
}

// The first position whose entry is not before x; a NaN is after every number. The steps depend on
// n alone and the comparison only selects, so nothing has to be foreseen by the processor.
template <bool right, class T>
int64_t position(const T* line, const int64_t* sorter, int64_t n, T x) {
  const auto is_before = [&](int64_t i) {
    const T entry = line[sorter ? sorter[i] : i];
    return static_cast<int64_t>(right ? !(entry > x) : !(entry >= x));
  };
  if (n == 0) return 0;
  int64_t low = 0;
  while (n > 1) {
    const int64_t half = n / 2;
    low += half & -is_before(low + half - 1);
    n -= half;
  }
  return low + is_before(low);
}

Tensor checked_sorter(const Call& c) {
  if (!c.has_in(2)) return {};
  Tensor sorter = contiguous_values(c.in(2));
  const int64_t n = c.in(0).size(-1);
  for (int64_t i = 0; i < sorter.numel(); ++i)
    PELLUCID_CHECK(sorter.raw<int64_t>()[i] >= 0 && sorter.raw<int64_t>()[i] < n, IndexError,
                   "searchsorted: sorter holds {}, which is out of range for {} entries.",
                   sorter.raw<int64_t>()[i], n);
  return sorter;
}

template <class T> void search(const Call& c, DType type) {
  const Tensor sequence = contiguous_values(c.in(0).detach().to(type)),
               values = contiguous_values(c.in(1).detach().to(type));
  const Tensor sorter = checked_sorter(c);
  const int64_t n = sequence.size(-1),
                each = sequence.dim() == 1 ? values.numel() : values.size(-1);
  const bool right = wants_right(c), narrow = c.flag(0);
  parallel_for(0, values.numel(), 4096, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const int64_t start = sequence.dim() == 1 ? 0 : i / each * n;
      const T* line = sequence.raw<T>() + start;
      const int64_t* order = sorter.defined() ? sorter.raw<int64_t>() + start : nullptr;
      const T x = values.raw<T>()[i];
      const int64_t at =
          right ? position<true>(line, order, n, x) : position<false>(line, order, n, x);
      if (narrow)
        c.out().raw<int32_t>()[i] = static_cast<int32_t>(at);
      else
        c.out().raw<int64_t>()[i] = at;
    }
  });
}

void run_searchsorted(Call& c) {
  if (c.out().numel() == 0) return;
  const DType a = c.in(0).dtype(), b = c.in(1).dtype();
  if (a == kFloat32 && b == kFloat32)
    search<float>(c, kFloat32);
  else if (is_floating(a) || is_floating(b))
    search<double>(c, kFloat64);
  else
    search<int64_t>(c, kInt64);
}

Tensor sorted_sample() { return std::get<0>(sample_randn({6}).sort()); }

}  // namespace

extern constinit const OpDef unique_op = {
    .schema =
        "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool "
        "return_counts=False, int? dim=None) "
        "-> (Tensor output, Tensor inverse_indices, Tensor counts)",
    .doc =
        "The distinct values in ascending order, or the distinct entries of a dim; on request "
        "which one each element is, and how often each occurs.",
    .infer = infer_unique,
    .cost = read_cost,
    .kernel = run_unique,
    .vjp = no_gradient,
    .onnx = {"Unique", 11},
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 5)});
          s.add_no_grad({sample_ints({3, 4}, 0, 5), true, true, true});
          s.add_no_grad({sample_ints({6, 2}, 0, 2), true, true, true, 0});
          s.add_no_grad({sample_ints({2, 6}, 0, 2), true, true, true, 1});
          s.add_no_grad({sample_randn({0})});
          s.error({sample_ints({3}, 0, 5), true, false, false, 1}, "dim 1 is out of range");
          s.large([] { return Values{randint(1000, {1 << 20})}; });
        },
};

extern constinit const OpDef unique2_op = {
    .schema =
        "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool "
        "return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "unique over all elements.",
    .compose = [](const Call& c) -> Tensors {
      auto [a, b, d] = unique(c.in(0), c.flag(0), c.flag(1), c.flag(2));
      return {a, b, d};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 5), true, true, true});
        },
};

extern constinit const OpDef unique_dim_op = {
    .schema =
        "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool "
        "return_counts=False) -> (Tensor, Tensor, Tensor)",
    .doc = "unique of the entries of a dim.",
    .compose = [](const Call& c) -> Tensors {
      auto [a, b, d] = unique(c.in(0), c.flag(1), c.flag(2), c.flag(3), c.integer(0));
      return {a, b, d};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({6, 2}, 0, 2), 0, true, true, true});
        },
};

extern constinit const OpDef unique_consecutive_op = {
    .schema =
        "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
        "dim=None) "
        "-> (Tensor output, Tensor inverse_indices, Tensor counts)",
    .doc = "The first of each run of equal neighbours.",
    .infer = infer_unique,
    .cost = read_cost,
    .kernel = run_unique_consecutive,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({12}, 0, 2)});
          s.add_no_grad({sample_ints({12}, 0, 2), true, true});
          s.add_no_grad({sample_ints({8, 2}, 0, 2), true, true, 0});
          s.error({sample_ints({3}, 0, 5), false, false, 1}, "dim 1 is out of range");
        },
};

extern constinit const OpDef searchsorted_op = {
    .schema =
        "searchsorted(Tensor sorted_sequence, Tensor|Scalar self, *, bool out_int32=False, bool "
        "right=False, str? side=None, "
        "Tensor? sorter=None) -> Tensor",
    .doc =
        "Where each value would be inserted in the sorted last dim: before equal entries, or after "
        "them with right.",
    .infer = infer_searchsorted,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.out().numel()), moved_bytes(c)};
        },
    .kernel = run_searchsorted,
    .check =
        [](const Call& c) {
          if (c.out().numel() > 0) checked_sorter(c);
        },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sorted_sample(), sample_randn({2, 3})});
          s.add_no_grad({sorted_sample(), 0.25}, {{"right", true}});
          s.add_no_grad({sorted_sample().view({2, 3}), sample_randn({2, 4})}, {{"side", "right"}});
          s.add_no_grad({sample_ints({5}, 3, 4), sample_ints({3}, 2, 6)}, {{"out_int32", true}});
          s.error({sorted_sample().view({2, 3}), sample_randn({3, 2})},
                  "all sizes but the last must agree");
          s.error({sorted_sample(), sample_randn({3})}, "side must be", {{"side", "middle"}});
          s.large([] { return Values{linspace(-3, 3, 1024), randn({1 << 20})}; });
        },
};

extern constinit const OpDef bucketize_op = {
    .schema =
        "bucketize(Tensor|Scalar self, Tensor boundaries, *, bool out_int32=False, bool "
        "right=False) -> Tensor",
    .doc =
        "The number of the bucket, among those that the sorted boundaries separate, in which each "
        "value lies.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.in(1).dim() == 1, ShapeError,
                     "bucketize: boundaries must be a vector, found sizes {}.", c.in(1).sizes());
      return {searchsorted(c.in(1), c.in(0), c.flag(0), c.flag(1))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3}), sorted_sample()});
          s.add_no_grad({0.5, sorted_sample()}, {{"right", true}});
          s.error({sample_randn({3}), sample_randn({2, 2})}, "boundaries must be a vector");
        },
};

}  // namespace pellucid
