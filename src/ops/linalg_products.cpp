// Products composed of others: outer, inner, tensordot, kron, trace, matrix_power and the bilinear
// layer.
#include <algorithm>

#include "ops/linalg.h"

namespace pellucid {
namespace {

Tensor compose_outer(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "vec2");
  check_dim(c, c.in(0), 1, "self");
  check_dim(c, c.in(1), 1, "vec2");
  return c.in(0).unsqueeze(1).mul(c.in(1));
}

// self and other with the contracted dimensions last and first: one matrix product, then the free
// sizes again.
Tensor contract(const Call& c, const Dims& dims_self, const Dims& dims_other) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const auto contracted = [](const Dims& dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Dims order_a, order_b(dims_other), sizes;
  int64_t rows = 1, inner = 1, columns = 1;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (!contracted(dims_self, d))
      order_a.push_back(d), sizes.push_back(a.size(d)), rows *= a.size(d);
  for (const int64_t d : dims_self) order_a.push_back(d), inner *= a.size(d);
  for (int64_t d = 0; d < b.dim(); ++d)
    if (!contracted(dims_other, d))
      order_b.push_back(d), sizes.push_back(b.size(d)), columns *= b.size(d);
  return a.permute(order_a)
      .reshape({rows, inner})
      .mm(b.permute(order_b).reshape({inner, columns}))
      .reshape(sizes);
}

// Wrapped, in the order given: the i-th of one tensor meets the i-th of the other.
Dims contracted_dims(const Call& c, IntArrayRef dims, const Tensor& t) {
  Dims out;
  for (const int64_t d : dims) {
    const int64_t w = wrap_dim(c.name(), d, t.dim());
    PELLUCID_CHECK(std::find(out.begin(), out.end(), w) == out.end(), ValueError,
                   "{}: dim {} appears more than once in {}.", c.name(), d, dims);
    out.push_back(w);
  }
  return out;
}

Tensor compose_tensordot(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  check_same_dtype(c, c.in(0), c.in(1));
  PELLUCID_CHECK(c.ints(0).size() == c.ints(1).size(), ShapeError,
                 "tensordot: dims_self {} and dims_other {} must be as long as each other.",
                 c.ints(0), c.ints(1));
  const Dims da = contracted_dims(c, c.ints(0), c.in(0)),
             db = contracted_dims(c, c.ints(1), c.in(1));
  for (size_t i = 0; i < da.size(); ++i)
    PELLUCID_CHECK(c.in(0).size(da[i]) == c.in(1).size(db[i]), ShapeError,
                   "tensordot: self.size({}) is {} but other.size({}) is {} (self {}, other {}).",
                   da[i], c.in(0).size(da[i]), db[i], c.in(1).size(db[i]), c.in(0).sizes(),
                   c.in(1).sizes());
  return contract(c, da, db);
}

Tensor compose_inner(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  const Tensor &a = c.in(0), &b = c.in(1);
  if (a.dim() == 0 || b.dim() == 0) return a.mul(b);
  check_same_dtype(c, a, b);
  PELLUCID_CHECK(a.size(-1) == b.size(-1), ShapeError,
                 "inner: the last sizes differ: {} and {} (self {}, other {}).", a.size(-1),
                 b.size(-1), a.sizes(), b.sizes());
  return contract(c, {a.dim() - 1}, {b.dim() - 1});
}

// Each size of one tensor beside that of the other, so that a broadcast product has all pairs.
Tensor compose_kron(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  const Tensor &a = c.in(0), &b = c.in(1);
  const int64_t n = std::max(a.dim(), b.dim());
  Dims sizes_a, sizes_b, sizes;
  for (int64_t d = 0; d < n; ++d) {
    const int64_t x = d < n - a.dim() ? 1 : a.size(d - n + a.dim()),
                  y = d < n - b.dim() ? 1 : b.size(d - n + b.dim());
    sizes_a.push_back(x), sizes_a.push_back(1);
    sizes_b.push_back(1), sizes_b.push_back(y);
    sizes.push_back(x * y);
  }
  return a.reshape(sizes_a).mul(b.reshape(sizes_b)).reshape(sizes);
}

Tensor compose_matrix_power(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& a = c.in(0);
  PELLUCID_CHECK(a.dim() >= 2 && a.size(-1) == a.size(-2), ShapeError,
                 "matrix_power: square matrices are needed, found sizes {}.", a.sizes());
  int64_t n = c.integer(0);
  PELLUCID_CHECK(n >= 0, ValueError,
                 "matrix_power: n must not be negative, found {}; there is no inverse here.", n);
  if (n == 0) return eye(a.size(-1), a.dtype()).expand(a.sizes()).clone();
  Tensor result, power = a;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) result = result.defined() ? result.matmul(power) : power;
    if (n > 1) power = power.matmul(power);
  }
  return result.is_same(a) ? a.clone() : result;
}

Tensor compose_bilinear(const Call& c) {
  check_defined(c, 0, "input1");
  check_defined(c, 1, "input2");
  check_defined(c, 2, "weight");
  const Tensor &x = c.in(0), &y = c.in(1), &w = c.in(2);
  check_dim(c, w, 3, "weight");
  PELLUCID_CHECK(
      x.dim() >= 1 && x.dim() == y.dim() &&
          x.sizes().slice(0, x.sizes().size() - 1) == y.sizes().slice(0, y.sizes().size() - 1),
      ShapeError, "bilinear: the inputs must agree but for the last size, found sizes {} and {}.",
      x.sizes(), y.sizes());
  PELLUCID_CHECK(x.size(-1) == w.size(1) && y.size(-1) == w.size(2), ShapeError,
                 "bilinear: a weight of sizes {} takes last sizes {} and {}, found {} and {}.",
                 w.sizes(), w.size(1), w.size(2), x.size(-1), y.size(-1));
  check_same_dtype(c, x, w);
  check_same_dtype(c, y, w);
  // [..., 1, in1] @ [out, in1, in2] needs the outputs between: one product x @ w as [in1, out *
  // in2], then with y.
  const int64_t out = w.size(0);
  Dims sizes(x.sizes());
  sizes.back() = out;
  sizes.push_back(w.size(2));
  const Tensor half =
      x.matmul(w.permute({1, 0, 2}).reshape({w.size(1), out * w.size(2)})).view(sizes);
  const Tensor result = half.matmul(y.unsqueeze(-1)).squeeze(-1);
  return c.has_in(3) ? result.add(c.in(3)) : result;
}

}  // namespace

extern constinit const OpDef outer_op = {
    .schema = "outer|ger(Tensor self, Tensor vec2) -> Tensor",
    .doc = "All products of two vectors: out[i, j] = self[i] * vec2[j].",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_outer(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2}), sample_randn({3})});
          s.add({sample_randn({0}), sample_randn({3})});
          s.error({sample_randn({2, 2}), sample_randn({3})}, "'self' must have 1 dimension");
          s.large([] { return Values{randn({4096}), randn({1024})}; });
        }};

extern constinit const OpDef inner_op = {
    .schema = "inner(Tensor self, Tensor other) -> Tensor",
    .doc = "The sum of products over the last dimension of both; a product where one is a number.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_inner(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3}), sample_randn({3})});
          s.add({sample_randn({2, 3}), sample_randn({2, 2, 3})});
          s.add({sample_randn({}), sample_randn({2, 2})});
          s.error({sample_randn({2, 3}), sample_randn({4})},
                  "inner: the last sizes differ: 3 and 4");
        }};

extern constinit const OpDef tensordot_op = {
    .schema = "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    .doc =
        "The sum of products over pairs of dimensions; what is left of self, then of other, are "
        "the dimensions of the result.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_tensordot(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 2}), sample_randn({3, 2, 2}), Value::ints({1, 0}),
                 Value::ints({0, 1})});
          s.add({sample_randn({2, 3}), sample_randn({2, 2}), Value::ints({}), Value::ints({})});
          s.add({sample_randn({2, 3}), sample_randn({3, 2}), Value::ints({-1, 0}),
                 Value::ints({0, -1})});
          s.error({sample_randn({2, 3}), sample_randn({3, 2}), Value::ints({1}), Value::ints({1})},
                  "tensordot: self.size(1) is 3 but other.size(1) is 2");
          s.error({sample_randn({2, 3}), sample_randn({3, 2}), Value::ints({1}), Value::ints({})},
                  "must be as long as each other");
          s.error({sample_randn({2, 2}), sample_randn({2, 2}), Value::ints({0, 0}),
                   Value::ints({0, 1})},
                  "appears more than once");
        }};

extern constinit const OpDef kron_op = {
    .schema = "kron(Tensor self, Tensor other) -> Tensor",
    .doc = "Every element of self times the whole of other, laid out as blocks.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_kron(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2}), sample_randn({2, 3})});
          s.add({sample_randn({2}), sample_randn({2, 2})});
          s.add({sample_randn({}), sample_randn({2})});
        }};

extern constinit const OpDef trace_op = {.schema = "trace(Tensor self) -> Tensor",
                                         .doc = "The sum of the diagonal of a matrix.",
                                         .kind = OpKind::Reduction,
                                         .compose = [](const Call& c) -> Tensors {
                                           check_defined(c, 0, "self");
                                           check_dim(c, c.in(0), 2, "self");
                                           return {c.in(0).diagonal().sum()};
                                         },
                                         .samples =
                                             [](Samples& s) {
                                               s.add({sample_randn({3, 3})});
                                               s.add({sample_randn({2, 4})});
                                               s.add_no_grad({sample_ints({3, 3}, -5, 5)});
                                               s.error({sample_randn({3})},
                                                       "'self' must have 2 dimensions");
                                             }};

extern constinit const OpDef matrix_power_op = {
    .schema = "matrix_power|linalg_matrix_power(Tensor self, int n) -> Tensor",
    .doc = "The n-th power of square matrices by repeated squaring; the identity for n = 0.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_matrix_power(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 3}), 3});
          s.add({sample_randn({2, 2, 2}), 2});
          s.add({sample_randn({2, 2}), 1});
          s.add_no_grad({sample_randn({2, 2}), 0});
          s.error({sample_randn({2, 3}), 2}, "square matrices are needed");
          s.error({sample_randn({2, 2}), -1}, "n must not be negative");
        }};

extern constinit const OpDef bilinear_op = {
    .schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    .doc =
        "out[..., o] = the sum over i and j of input1[..., i] * weight[o, i, j] * input2[..., j], "
        "plus bias[o].",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_bilinear(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2}), sample_randn({2, 3}), sample_randn({2, 2, 3}),
                 sample_randn({2})});
          s.add({sample_randn({2, 1, 2}), sample_randn({2, 1, 3}), sample_randn({2, 2, 3})});
          s.error({sample_randn({2, 2}), sample_randn({3, 3}), sample_randn({2, 2, 3})},
                  "must agree but for the last size");
          s.error({sample_randn({2, 2}), sample_randn({2, 2}), sample_randn({2, 2, 3})},
                  "takes last sizes 2 and 3, found 2 and 2");
        }};

}  // namespace pellucid
