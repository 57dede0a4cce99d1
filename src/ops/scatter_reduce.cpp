// scatter with a reduction: what is written to a place is added to it, multiplied with it, or the
// mean or an extreme is kept. The kernels are in gather.cpp.
#include <limits>

#include "ops/common.h"
#include "ops/index.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// self, index, src; the attributes are dim and, at `reduce_at`, the reduction.
Tensor reduced(const Call& c, const Tensor& src, size_t reduce_at) {
  const std::string_view reduce = c.text(reduce_at);
  PELLUCID_CHECK(reduce == "add" || reduce == "multiply", ValueError,
                 "scatter: reduce must be 'add' or 'multiply', found '{}'.", reduce);
  return reduce == "add" ? c.in(0).scatter_add(c.integer(0), c.in(1), src)
                         : _scatter_multiply(c.in(0), c.integer(0), c.in(1), src);
}

// The number that changes nothing: what self holds at written places where it does not take part.
Scalar neutral(std::string_view reduce, DType type) {
  if (reduce == "prod") return int64_t{1};
  if (reduce == "sum" || reduce == "mean") return int64_t{0};
  const bool greatest = reduce == "amax";
  if (is_floating(type)) {
    const double inf = std::numeric_limits<double>::infinity();
    return greatest ? -inf : inf;
  }
  Scalar value;
  visit(type, [&](auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    if constexpr (Limits::is_integer)
      value = static_cast<int64_t>(greatest ? Limits::min() : Limits::max());
  });
  return value;
}

// The mean of what came to a place: the sum over how many there were.
Tensor scatter_mean(const Tensor& self, const Tensor& base, int64_t dim, const Tensor& index,
                    const Tensor& src, bool include_self) {
  const Tensor total = base.scatter_add(dim, index, src);
  Tensor count;
  {
    const NoGradGuard off;
    count = full(self.sizes(), include_self ? 1 : 0, self.dtype())
                .scatter_add(dim, index, ones(src.sizes(), self.dtype()))
                .clamp_min(1);
  }
  return is_floating(self.dtype()) ? total.div(count) : total.div(count, "floor");
}

Tensor scatter_reduced(const Call& c, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& src, std::string_view reduce, bool include_self) {
  PELLUCID_CHECK(reduce == "sum" || reduce == "prod" || reduce == "mean" || reduce == "amax" ||
                     reduce == "amin",
                 ValueError,
                 "{}: reduce argument must be sum, prod, mean, amax or amin, found '{}'.", c.name(),
                 reduce);
  check_same_dtype(c, self, src);
  check_index_dtype(c, index);
  const Tensor base = include_self ? self : self.scatter(dim, index, neutral(reduce, self.dtype()));
  if (reduce == "sum") return base.scatter_add(dim, index, src);
  if (reduce == "prod") return _scatter_multiply(base, dim, index, src);
  if (reduce == "mean") return scatter_mean(self, base, dim, index, src, include_self);
  return _scatter_extreme(base, dim, index, src, reduce == "amax");
}

Tensor compose_index_reduce(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  check_defined(c, 2, "source");
  const Tensor &self = c.in(0), &index = c.in(1), &source = c.in(2);
  PELLUCID_CHECK(index.dim() <= 1, ShapeError,
                 "index_reduce: index must have 1 dimension, found sizes {}.", index.sizes());
  PELLUCID_CHECK(c.text(1) != "sum", ValueError,
                 "index_reduce: reduce argument must be prod, mean, amax or amin, found 'sum'; "
                 "index_add adds.");
  const int64_t dim = wrap_dim("index_reduce", c.integer(0), self.dim());
  bool fits = source.dim() == self.dim();
  for (int64_t d = 0; fits && d < self.dim(); ++d)
    fits = source.size(d) == (d == dim ? index.numel() : self.size(d));
  PELLUCID_CHECK(fits, ShapeError,
                 "index_reduce: source must have the sizes of self, and of index in dim {}; found "
                 "source {}, index {}, self {}.",
                 dim, source.sizes(), index.sizes(), self.sizes());
  if (self.dim() == 0)
    return scatter_reduced(c, self, 0, index.reshape({}), source, c.text(1), c.flag(2));
  Dims sizes(static_cast<size_t>(self.dim()), 1);
  sizes[static_cast<size_t>(dim)] = index.numel();
  const Tensor places = index.reshape(sizes).expand(source.sizes());
  return scatter_reduced(c, self, dim, places, source, c.text(1), c.flag(2));
}

constexpr const char* kReductions[] = {"sum", "prod", "mean", "amax", "amin"};

}  // namespace

extern constinit const OpDef scatter_reduce_two_op = {
    .schema =
        "scatter_reduce[_].two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
        "include_self=True) -> Tensor",
    .doc =
        "self with the sum, prod, mean, amax or amin of what src has for each place; self takes "
        "part if include_self.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "index");
      check_defined(c, 2, "src");
      return {scatter_reduced(c, c.in(0), c.integer(0), c.in(1), c.in(2), c.text(1), c.flag(2))};
    },
    .samples =
        [](Samples& s) {
          for (const char* reduce : kReductions)
            for (const bool with_self : {true, false}) {
              s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({6, 2}, 0, 4),
                     sample_randn({6, 2}, 0.1), reduce},
                    {{"include_self", with_self}});
              s.add_no_grad({sample_ints({3, 5}, -4, 5), -1, sample_ints({3, 4}, 0, 5),
                             sample_ints({3, 4}, 1, 5), reduce},
                            {{"include_self", with_self}});
            }
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_randn({2}), "median"},
                  "reduce argument must be");
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2}), "amax"},
                  "index 3 is out of bounds");
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_ints({2}, 0, 3), "sum"},
                  "dtype");
          s.large([] {
            return std::vector<Value>{randn({4096, 256}), 0, randint(4096, {4096, 256}),
                                      randn({4096, 256}), "amax"};
          });
        },
};

extern constinit const OpDef index_reduce_op = {
    .schema =
        "index_reduce[_](Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True) -> Tensor",
    .doc =
        "self with the prod, mean, amax or amin of the slices of source that index gives to each "
        "slice along dim; self takes part if include_self.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_index_reduce(c)}; },
    .samples =
        [](Samples& s) {
          for (const char* reduce : kReductions)
            if (reduce != kReductions[0])
              for (const bool with_self : {true, false})
                s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({5}, 0, 4),
                       sample_randn({5, 2}, 0.1), reduce},
                      {{"include_self", with_self}});
          s.add({sample_randn({2, 3}), 1, sample_ints({2}, 0, 3), sample_randn({2, 2}), "amax"});
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_randn({2}), "sum"},
                  "reduce argument must be");
          s.error({sample_randn({3, 2}), 0, sample_ints({2}, 0, 3), sample_randn({3, 2}), "amax"},
                  "source must have the sizes of self");
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2}), "amin"},
                  "index 3 is out of bounds");
        },
};

extern constinit const OpDef scatter_reduce_op = {
    .schema =
        "scatter[_].reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> "
        "Tensor",
    .doc = "scatter that adds src to what is there ('add') or multiplies it ('multiply').",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 2, "src");
      return {reduced(c, c.in(2), 1)};
    },
    .samples =
        [](Samples& s) {
          for (const char* reduce : {"add", "multiply"})
            s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({3, 2}, 0, 4),
                   sample_randn({3, 2}, 0.1)},
                  {{"reduce", reduce}});
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_randn({2})},
                  "must be 'add' or 'multiply', found 'mean'", {{"reduce", "mean"}});
        },
};

extern constinit const OpDef scatter_value_reduce_op = {
    .schema =
        "scatter[_].value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) "
        "-> Tensor",
    .doc = "scatter that adds one value to what is there ('add') or multiplies it ('multiply').",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "index");
      return {reduced(c, full(c.in(1).sizes(), c.scalar(1), c.in(0).dtype()), 2)};
    },
    .samples =
        [](Samples& s) {
          for (const char* reduce : {"add", "multiply"})
            s.add({sample_randn({4, 2}, 0.1), 0, sample_ints({3, 2}, 0, 4), 1.5},
                  {{"reduce", reduce}});
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), 2},
                  "must be 'add' or 'multiply', found 'mean'", {{"reduce", "mean"}});
        },
};

}  // namespace pellucid
