// Differences of neighbours, slopes and integrals by trapezoids.
#include "ops/common.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// What diff can put before or behind self.
void check_joined(const Call& c, const Tensor& self, int64_t dim, const Tensor& given) {
  bool fits = given.dim() == self.dim();
  for (int64_t d = 0; fits && d < self.dim(); ++d) fits = d == dim || given.size(d) == self.size(d);
  PELLUCID_CHECK(fits, ShapeError,
                 "{}: prepend and append must have the sizes of self but for dim {}, found {} for "
                 "{}.",
                 c.name(), dim, given.sizes(), self.sizes());
}

Tensor compose_diff(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  PELLUCID_CHECK(self.dim() >= 1, ShapeError, "diff: self must have dimensions, found a number.");
  const int64_t n = c.integer(0);
  PELLUCID_CHECK(n >= 0, ValueError, "diff: n must be non-negative, found {}.", n);
  const int64_t dim = wrap_dim("diff", c.integer(1), self.dim());
  if (n == 0) return self.clone();
  Tensors parts{self};
  for (size_t i : {1, 2}) {
    if (!c.has_in(i)) continue;
    check_joined(c, self, dim, c.in(i));
    parts.insert(i == 1 ? parts.begin() : parts.end(), c.in(i));
  }
  Tensor x = parts.size() > 1 ? cat(parts, dim) : self;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t size = x.size(dim);
    if (size <= 1) return x.narrow(dim, 0, 0).clone();
    const Tensor a = x.narrow(dim, 1, size - 1), b = x.narrow(dim, 0, size - 1);
    x = x.dtype() == kBool ? a.logical_xor(b) : a - b;
  }
  return x;
}

// The slope along the last dim of values at the places `at`.
Tensor slope(const Tensor& x, const Tensor& at, int64_t edge_order) {
  const int64_t n = x.size(-1);
  PELLUCID_CHECK(n >= edge_order + 1, ShapeError,
                 "gradient: each dimension must have at least edge_order + 1 entries, found {} for "
                 "edge_order {}.",
                 n, edge_order);
  PELLUCID_CHECK(at.dim() == 1 && at.numel() == n, ShapeError,
                 "gradient: spacing needs one place for each of {} entries, found sizes {}.", n,
                 at.sizes());
  const Tensor step = at.diff(), slopes = x.diff() / step;
  const Tensor left = step.narrow(0, 0, n - 2), right = step.narrow(0, 1, n - 2);
  const Tensor inner =
      (slopes.narrow(-1, 0, n - 2) * right + slopes.narrow(-1, 1, n - 2) * left) / (left + right);
  Tensor first = slopes.narrow(-1, 0, 1), last = slopes.narrow(-1, n - 2, 1);
  if (edge_order == 2) {
    first = first * 2 - inner.narrow(-1, 0, 1);
    last = last * 2 - inner.narrow(-1, n - 3, 1);
  }
  return cat({first, inner, last}, -1);
}

Dims checked_dims(const Call& c, const Tensor& self, size_t dim_at, int64_t edge_order) {
  PELLUCID_CHECK(self.dtype() != kUInt8 && self.dtype() != kBool, TypeError,
                 "gradient: takes signed numbers, found {}.", self.dtype());
  PELLUCID_CHECK(edge_order == 1 || edge_order == 2, ValueError,
                 "gradient: edge_order must be 1 or 2, found {}.", edge_order);
  Dims dims;
  if (!c.has_attr(dim_at)) {
    for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
    return dims;
  }
  for (const int64_t given : c.ints(dim_at)) {
    const int64_t d = wrap_dim("gradient", given, self.dim());
    for (const int64_t other : dims)
      PELLUCID_CHECK(other != d, ValueError, "gradient: dim {} appears more than once.", d);
    dims.push_back(d);
  }
  return dims;
}

DType place_type(const Tensor& self) {
  return is_floating(self.dtype()) ? self.dtype() : get_default_dtype();
}

// Attributes: spacing, dim, edge_order.
Tensors compose_gradient(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t edge_order = c.integer(2);
  const double h = c.has_attr(0) ? c.number(0) : 1.0;
  Tensors out;
  for (const int64_t d : checked_dims(c, self, 1, edge_order)) {
    const Tensor at = arange(self.size(d), place_type(self)).mul(h);
    out.push_back(slope(self.movedim(d, -1), at, edge_order).movedim(-1, d));
  }
  return out;
}

// Attributes: dim, edge_order. Each spacing is a step (0-dim) or the places of the entries.
Tensors compose_gradient_tensors(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t edge_order = c.integer(1);
  const Dims dims = checked_dims(c, self, 0, edge_order);
  PELLUCID_CHECK(c.input_count() == dims.size() + 1, ShapeError,
                 "gradient: spacing must have an entry for each of {} dims, found {}.", dims.size(),
                 c.input_count() - 1);
  Tensors out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Tensor& given = c.in(i + 1);
    const Tensor at =
        given.dim() == 0 ? arange(self.size(dims[i]), place_type(self)).mul(given) : given;
    out.push_back(slope(self.movedim(dims[i], -1), at, edge_order).movedim(-1, dims[i]));
  }
  return out;
}

// The areas of the trapezoids between neighbours along dim; x may be undefined.
Tensor trapezoids(const Call& c, const Tensor& x, const Scalar& dx, int64_t given) {
  check_defined(c, 0, "y");
  const Tensor& y = c.in(0);
  PELLUCID_CHECK(y.dim() > 0, IndexError, "{}: dim {} was given but y has no dimensions.", c.name(),
                 given);
  PELLUCID_CHECK(y.dtype() != kBool && !(x.defined() && x.dtype() == kBool), TypeError,
                 "{}: takes numbers, found a bool tensor.", c.name());
  const int64_t dim = wrap_dim(c.name(), given, y.dim()), n = y.size(dim);
  PELLUCID_CHECK(!x.defined() || x.dim() != 1 || x.size(0) == n, ShapeError,
                 "{}: there must be one x for each of {} values, found {}.", c.name(), n,
                 x.defined() && x.dim() == 1 ? x.size(0) : 0);
  if (n == 0) return y / 2;  // no trapezoid: the sum of none is 0
  const Tensor both = y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1);
  if (!x.defined()) return both / 2 * dx;
  // Products of integers wrap around before they are halved, as in PyTorch.
  if (x.dim() != 1) return both * x.diff(1, x.dim() == y.dim() ? dim : given) / 2;
  Dims sizes(static_cast<size_t>(y.dim()), 1);
  sizes[static_cast<size_t>(dim)] = n - 1;
  return both * x.diff().reshape(sizes) / 2;
}

void trapezoid_samples(Samples& s) {
  s.add({sample_randn({3, 4})});
  s.add({sample_randn({3, 4})}, {{"dx", 0.5}, {"dim", 0}});
  s.error({sample_randn({})}, "y has no dimensions");
  s.error({ones({3}, kBool)}, "takes numbers");
}
void trapezoid_x_samples(Samples& s) {
  s.add({sample_randn({3, 4}), sample_randn({4})});
  s.add({sample_randn({3, 4}), sample_randn({3, 4})}, {{"dim", 0}});
  s.error({sample_randn({4}), sample_randn({3})}, "one x for each of 4 values");
}

}  // namespace

extern constinit const OpDef diff_op = {
    .schema =
        "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> "
        "Tensor",
    .doc = "The differences of neighbours along dim, n times.",
    .compose = [](const Call& c) -> Tensors { return {compose_diff(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add({sample_randn({4, 2}), 2, 0});
          s.add({sample_randn({2, 3}), 1, -1},
                {{"prepend", sample_randn({2, 1})}, {"append", sample_randn({2, 2})}});
          s.add_no_grad({ones({4}, kBool)});
          s.add_no_grad({sample_randn({2}), 5});
          s.error({sample_randn({})}, "must have dimensions");
          s.error({sample_randn({3}), -1}, "n must be non-negative");
          s.error({sample_randn({3}), 1, 2}, "out of range");
          s.error({sample_randn({2, 3})}, "the sizes of self but for dim 1",
                  {{"prepend", sample_randn({3})}});
        },
};

extern constinit const OpDef gradient_op = {
    .schema =
        "gradient(Tensor self, *, Scalar? spacing=None, int[1]? dim=None, int edge_order=1) -> "
        "Tensor[]",
    .doc = "Central differences along each dim, with one distance of neighbours for all.",
    .compose = compose_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add({sample_randn({5, 3})},
                {{"spacing", 0.5}, {"dim", Value::ints({0})}, {"edge_order", 2}});
          s.error({sample_randn({3})}, "edge_order must be 1 or 2", {{"edge_order", 3}});
          s.error({sample_randn({1, 3})}, "at least edge_order + 1");
          s.error({sample_randn({3, 3})}, "more than once", {{"dim", Value::ints({0, 0})}});
        },
};

extern constinit const OpDef gradient_tensors_op = {
    .schema =
        "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[1]? dim=None, int "
        "edge_order=1) -> Tensor[]",
    .doc =
        "Central differences along each dim; spacing has for each the distance of neighbours or "
        "their places.",
    .compose = compose_gradient_tensors,
    .samples =
        [](Samples& s) {
          s.add_no_grad(
              {sample_randn({3, 4})},
              {{"spacing", Value::tensors({arange(3, kFloat64).square(), arange(4, kFloat64)})}});
          s.error({sample_randn({3, 4})}, "an entry for each of 2 dims",
                  {{"spacing", Value::tensors({arange(3, kFloat64)})}});
        },
};

extern constinit const OpDef trapezoid_op = {
    .schema = "trapezoid|trapz.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    .doc = "The integral of y along dim by trapezoids of width dx.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {trapezoids(c, {}, c.scalar(0), c.integer(1)).sum({c.integer(1)})};
    },
    .samples = trapezoid_samples,
};

extern constinit const OpDef trapezoid_x_op = {
    .schema = "trapezoid|trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    .doc = "The integral of y along dim by trapezoids between the places x.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 1, "x");
      return {trapezoids(c, c.in(1), 1, c.integer(0)).sum({c.integer(0)})};
    },
    .samples = trapezoid_x_samples,
};

extern constinit const OpDef cumulative_trapezoid_op = {
    .schema = "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    .doc = "The integrals of y from the first place of dim to each other one, with width dx.",
    .compose = [](const Call& c) -> Tensors {
      return {trapezoids(c, {}, c.scalar(0), c.integer(1)).cumsum(c.integer(1))};
    },
    .samples = trapezoid_samples,
};

extern constinit const OpDef cumulative_trapezoid_x_op = {
    .schema = "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    .doc = "The integrals of y from the first place of dim to each other one, between places x.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 1, "x");
      return {trapezoids(c, c.in(1), 1, c.integer(0)).cumsum(c.integer(0))};
    },
    .samples = trapezoid_x_samples,
};

}  // namespace pellucid
