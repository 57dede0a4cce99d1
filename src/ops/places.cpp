// Copies of a tensor with other values at some place: one position of a dim, a slice, a diagonal.
// And what comes of positions: choices of elements, their coordinates.
#include <algorithm>

#include "ops/common.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "tensor/phantom.h"

namespace pellucid {
namespace {

// A copy of self in which the place, found in a view of it, holds src.
template <class F> Tensor with_place(const Call& c, F place_of) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "src");
  const Tensor made = c.in(0).clone(), place = place_of(made);
  PELLUCID_CHECK(place.sizes() == c.in(1).sizes(), ShapeError,
                 "{}: src must have the size of the place in self, found {} for {} (self {}).",
                 c.name(), c.in(1).sizes(), place.sizes(), c.in(0).sizes());
  place.copy_(c.in(1));
  return made;
}

std::optional<int64_t> int_if(const Call& c, size_t i) {
  return c.has_attr(i) ? std::optional(c.integer(i)) : std::nullopt;
}

// How many ways there are to choose r of n; -1 beyond 2^62.
int64_t ways(int64_t n, int64_t r) {
  __int128 count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    count = count * (n - i + 1) / i;
    if (count > (int64_t{1} << 62)) return -1;
  }
  return static_cast<int64_t>(count);
}

// The rows of `r` numbers below `n`, rising, or not falling where one may be chosen again.
Tensor choices(int64_t n, int64_t r, bool again) {
  if (n == 0 || (!again && r > n)) return empty({0, r}, kInt64);
  int64_t of = n, count = -1;
  if (!again || !__builtin_add_overflow(n - 1, r, &of)) count = ways(of, r);
  PELLUCID_CHECK(count >= 0, ValueError,
                 "combinations: {} of {} elements can be chosen in more than 2^62 ways.", r, n);
  const Tensor rows = empty({count, r}, kInt64);
  if (!detail::has_values(rows.impl())) return rows;  // an estimate
  int64_t* row = rows.raw<int64_t>();
  for (int64_t i = 0; i < r; ++i) row[i] = again ? 0 : i;
  const auto most = [&](int64_t i) { return again ? n - 1 : n - r + i; };
  for (int64_t k = 1; k < count; ++k, row += r) {
    int64_t i = r - 1;
    while (row[i] == most(i)) --i;
    std::copy(row, row + i, row + r);
    for (int64_t j = i; j < r; ++j) row[r + j] = row[i] + 1 + (again ? 0 : j - i);
  }
  return rows;
}

Tensor compose_combinations(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  check_dim(c, self, 1, "self");
  const int64_t r = c.integer(0);
  PELLUCID_CHECK(r >= 0, ValueError, "combinations: r must not be negative, found {}.", r);
  if (r == 0) return empty({0}, self.dtype());
  const Tensor rows = choices(self.numel(), r, c.flag(1));
  return self.index_select(0, rows.reshape({-1})).reshape(rows.sizes());
}

Tensor compose_cartesian_prod(const Call& c) {
  Tensors tensors;
  for (size_t i = 0; i < c.input_count(); ++i) {
    check_defined(c, i, "tensors");
    check_dim(c, c.in(i), 1, "a tensor");
    tensors.push_back(c.in(i));
  }
  PELLUCID_CHECK(!tensors.empty(), ValueError, "cartesian_prod: at least one tensor is needed.");
  if (tensors.size() == 1) return tensors[0];
  Tensors grids;
  for (const Tensor& grid : meshgrid(tensors, "ij")) grids.push_back(grid.reshape({-1}));
  return stack(grids, 1);
}

Tensors compose_unravel_index(const Call& c) {
  check_defined(c, 0, "indices");
  Tensor rest = c.in(0);
  const IntArrayRef shape = c.ints(0);
  PELLUCID_CHECK(is_integral(rest.dtype(), false), TypeError,
                 "unravel_index: indices must be integers, found {}.", rest.dtype());
  for (const int64_t n : shape)
    PELLUCID_CHECK(n >= 0, ValueError,
                   "unravel_index: shape must not have negative sizes, found {}.", shape);
  const int64_t count = detail::checked_numel(shape);
  if (rest.numel() > 0)
    PELLUCID_CHECK(rest.min().item<int64_t>() >= 0 && rest.max().item<int64_t>() < count,
                   ValueError, "unravel_index: an index is out of range of a tensor of sizes {}.",
                   shape);
  Tensors places(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t size = std::max<int64_t>(shape[d], 1);
    places[d] = rest.remainder(size);
    rest = rest.floor_divide(size);
  }
  return places;
}

Tensor powers_of(const Tensor& x, int64_t count) {
  return x.unsqueeze(-1).pow(arange(count, kInt64));
}

}  // namespace

extern constinit const OpDef select_scatter_op = {
    .schema = "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
    .doc = "A copy of self with src at one position of dim.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      return {with_place(c, [&](const Tensor& t) { return t.select(c.integer(0), c.integer(1)); })};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({4}), 0, 1});
          s.add({sample_randn({3, 4}), sample_randn({3}), -1, -2});
          s.error({sample_randn({3, 4}), sample_randn({3}), 0, 1}, "the size of the place");
          s.error({sample_randn({3, 4}), sample_randn({4}), 0, 3}, "out of range");
        },
};

extern constinit const OpDef slice_scatter_op = {
    .schema =
        "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int "
        "step=1) -> Tensor",
    .doc = "A copy of self with src in a slice of dim.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      return {with_place(c, [&](const Tensor& t) {
        return t.slice(c.integer(0), int_if(c, 1), int_if(c, 2), c.integer(3));
      })};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({5, 2}), sample_randn({2, 2}), 0, 1, 3});
          s.add({sample_randn({2, 5}), sample_randn({2, 3}), 1, Value(), Value(), 2});
          s.add({sample_randn({3}), sample_randn({3})});
          s.error({sample_randn({5, 2}), sample_randn({3, 2}), 0, 1, 3}, "the size of the place");
        },
};

extern constinit const OpDef diagonal_scatter_op = {
    .schema =
        "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    .doc = "A copy of self with src on a diagonal.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      return {with_place(c, [&](const Tensor& t) {
        return t.diagonal(c.integer(0), c.integer(1), c.integer(2));
      })};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({3})});
          s.add({sample_randn({2, 3, 3}), sample_randn({2, 2}), 1, 1, 2});
          s.error({sample_randn({3, 3}), sample_randn({2})}, "the size of the place");
        },
};

extern constinit const OpDef combinations_op = {
    .schema = "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    .doc = "All choices of r elements of a vector, one a row.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_combinations(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4})});
          s.add({sample_randn({3}), 2, true});
          s.add({sample_randn({4}), 3});
          s.add({sample_randn({1}), 2});
          s.add_no_grad({sample_randn({3}), 0});
          s.error({sample_randn({2, 2})}, "must have 1 dimension");
          s.error({sample_randn({3}), -1}, "r must not be negative");
          s.error({sample_randn({9}), int64_t{1} << 40, true}, "in more than 2^62 ways");
        },
};

extern constinit const OpDef cartesian_prod_op = {
    .schema = "cartesian_prod(Tensor[] tensors) -> Tensor",
    .doc = "All combinations of one element of each vector, one a row.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_cartesian_prod(c)}; },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2}), sample_randn({3})})});
          s.add({Value::tensors({sample_randn({3})})});
          s.error({Value::tensors({sample_randn({2, 2})})}, "must have 1 dimension");
        },
};

extern constinit const OpDef unravel_index_op = {
    .schema = "unravel_index(Tensor indices, int[] shape) -> Tensor[]",
    .doc = "The coordinates, in a tensor of that shape, of elements given by their numbers.",
    .kind = OpKind::Index,
    .compose = compose_unravel_index,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({4}, 0, 6), Value::ints({2, 3})});
          s.error({sample_ints({2}, 6, 7), Value::ints({2, 3})}, "out of range");
          s.error({sample_ints({2}, -1, 0), Value::ints({2, 3})}, "out of range");
          s.error({sample_randn({2}), Value::ints({2, 3})}, "must be integers");
          s.error({sample_ints({2}, 0, 1), Value::ints({-2, 3})}, "negative sizes");
          s.error({sample_ints({2}, 0, 1), Value::ints({int64_t{1} << 40, int64_t{1} << 40})},
                  "more than 2^63 - 1 elements");
        },
};

extern constinit const OpDef vander_op = {
    .schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    .doc = "Powers of the elements of a vector as columns, falling unless told otherwise.",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "x");
      check_dim(c, c.in(0), 1, "x");
      const int64_t n = c.has_attr(0) ? c.integer(0) : c.in(0).numel();
      PELLUCID_CHECK(n >= 0, ValueError, "vander: N must not be negative, found {}.", n);
      const Tensor rising = powers_of(c.in(0), n);
      return {c.flag(1) ? rising : rising.flip({-1})};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3}, 0.1)});
          s.add({sample_randn({3}, 0.1), 4, true});
          s.error({sample_randn({2, 2})}, "must have 1 dimension");
          s.error({sample_randn({2}), -1}, "N must not be negative");
        },
};

extern constinit const OpDef linalg_vander_op = {
    .schema = "linalg_vander(Tensor x, *, int? N=None) -> Tensor",
    .doc = "Powers of the last dim's elements as columns, rising.",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "x");
      PELLUCID_CHECK(c.in(0).dtype() != kBool, TypeError,
                     "linalg_vander: takes numbers, found a bool tensor.");
      const Tensor x = c.in(0).dim() == 0 ? c.in(0).reshape({1}) : c.in(0);
      const int64_t n = c.has_attr(0) ? c.integer(0) : x.size(-1);
      PELLUCID_CHECK(!c.has_attr(0) || n > 1, ValueError,
                     "linalg_vander: N must be greater than 1, found {}.", n);
      return {powers_of(x, n)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3}, 0.1)});
          s.add({sample_randn({2, 3}, 0.1)}, {{"N", 2}});
          s.error({sample_randn({3})}, "N must be greater than 1", {{"N", 1}});
        },
};

}  // namespace pellucid
