// p-norms of vectors and norms of matrices; those of order 2 and 'nuc' are of the singular values.
#include <cmath>

#include "ops/reduce.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// Attributes of linalg_vector_norm: ord, dim, keepdim, dtype.
void infer_norm(Call& c) {
  check_defined(c, 0, "self");
  const DType t = c.dtype_if(3).value_or(c.in(0).dtype());
  PELLUCID_CHECK(is_floating(t) && is_floating(c.in(0).dtype()), TypeError,
                 "{}: a norm is floating, found a {} tensor and the result type {}. Convert the "
                 "tensor with .to(kFloat32).",
                 c.name(), c.in(0).dtype(), t);
  const Dims dims = dims_attr(c, 1);
  const double p = c.number(0);
  PELLUCID_CHECK(!std::isnan(p), ValueError, "{}: ord is NaN.", c.name());
  if (p < 0 || p == INFINITY) check_not_empty(c, dims);  // these have no identity
  make_reduced(c, dims, c.flag(2), t);
}

void run_norm(Call& c) {
  const NoGradGuard off;
  const DType t = c.out().dtype();
  const Dims dims = dims_attr(c, 1);
  // Summing in float64 is asked for by the result's type; a narrower type rounds each element
  // first.
  if (element_size(t) >= element_size(c.in(0).dtype()))
    return run_or_describe(c, kernels::ReduceOp::Norm, dims, c.out(), {}, c.number(0));
  if (!c.described())
    run_reduction(c.in(0).to(t), kernels::ReduceOp::Norm, dims, c.out(), {}, c.number(0));
}

Tensors norm_vjp(const Vjp& v) {
  const Dims dims = dims_attr(v, 1);
  const auto ndim = static_cast<int64_t>(v.in_sizes(0).size());
  const double p = v.number(0);
  const Tensor x = v.in(0).to(v.out().dtype());
  const Tensor g = restore_dims(v.grad, dims, ndim, v.flag(2)),
               norm = restore_dims(v.out(), dims, ndim, v.flag(2));
  // Where the norm is 0 there is no direction: the gradient is 0.
  const auto unless_zero = [&norm](const Tensor& t) { return where(norm.eq(0.0), Scalar(0.0), t); };
  if (p == 0) return {zeros_like(x)};
  if (p == 1) return {g.mul(x.sign())};
  if (p == 2) return {x.mul(unless_zero(g.div(norm)))};
  if (std::isinf(p)) {
    const Tensor reached = x.abs().eq(norm).logical_or(x.isnan()).to(x.dtype());  // NaN wins
    return {x.sign().mul(reached).mul(g.div(reached.sum(dims.ref(), true)))};
  }
  if (p < 1) {
    const Tensor power = where(x.eq(0.0), Scalar(0.0), x.abs().pow(p - 1));
    return {x.sign().mul(power).mul(g.mul(norm.pow(1 - p)))};
  }
  const Tensor scale = unless_zero(g.div(norm.pow(p - 1)));
  if (p < 2) return {x.sign().mul(x.abs().pow(p - 1)).mul(scale)};
  return {x.mul(x.abs().pow(p - 2)).mul(scale)};
}

// The matrices of a call: the tensor, and which of its dims are rows and columns.
struct Matrices {
  Tensor x;
  int64_t rows, columns;
};

Matrices matrices_of(const Call& c, IntArrayRef dim, std::optional<DType> dtype) {
  const Tensor x = dtype ? c.in(0).to(*dtype) : c.in(0);
  PELLUCID_CHECK(dim.size() == 2, ShapeError, "{}: a matrix norm takes two dims, found {}.",
                 c.name(), dim);
  PELLUCID_CHECK(x.dim() >= 2, ShapeError,
                 "{}: a matrix norm takes at least two dimensions, found sizes {}.", c.name(),
                 x.sizes());
  const int64_t rows = wrap_dim(c.name(), dim[0], x.dim()),
                columns = wrap_dim(c.name(), dim[1], x.dim());
  PELLUCID_CHECK(rows != columns, ShapeError,
                 "{}: a matrix norm takes two different dims, found {} of sizes {}.", c.name(), dim,
                 x.sizes());
  return {x, rows, columns};
}

// A result whose dims `rows` and `columns` have size 1, without them unless they are to be kept.
Tensor without_matrix_dims(const Tensor& t, const Matrices& m, bool keepdim) {
  return keepdim ? t : t.squeeze(std::max(m.rows, m.columns)).squeeze(std::min(m.rows, m.columns));
}

// The singular values of each matrix along the dim `columns`, with size 1 along `rows`.
Tensor singular_values(const Matrices& m) {
  const Tensor s = std::get<1>(linalg_svd(m.x.movedim({m.rows, m.columns}, {-2, -1}), false));
  return s.unsqueeze(-2).movedim({-2, -1}, {m.rows, m.columns});
}

Tensor matrix_norm(const Call& c, double order, IntArrayRef dim, bool keepdim,
                   std::optional<DType> dtype) {
  const Matrices m = matrices_of(c, dim, dtype);
  PELLUCID_CHECK(std::fabs(order) == 1 || std::fabs(order) == 2 || std::isinf(order), ValueError,
                 "{}: there is no matrix norm of order {}; use 1, -1, 2, -2, inf, -inf, 'fro' or "
                 "'nuc'.",
                 c.name(), order);
  const int64_t along = std::isinf(order) ? m.columns : m.rows;  // magnitudes summed in a row
  const int64_t across = std::isinf(order) ? m.rows : m.columns;
  const Tensor values =
      std::fabs(order) == 2 ? singular_values(m) : linalg_vector_norm(m.x, 1, along, true);
  // The norm of a matrix without entries is 0; a negative order has no least sum to give.
  const Tensor result = order > 0 && values.size(across) == 0 ? values.sum(across, true)
                        : order > 0                           ? values.amax(across, true)
                                                              : values.amin(across, true);
  return without_matrix_dims(result, m, keepdim);
}

Tensor nuclear_norm(const Call& c, IntArrayRef dim, bool keepdim, std::optional<DType> dtype) {
  const Matrices m = matrices_of(c, dim, dtype);
  return without_matrix_dims(singular_values(m).sum(m.columns, true), m, keepdim);
}

Tensor frobenius(const Call& c, OptionalIntArrayRef dim, bool keepdim, std::optional<DType> dtype) {
  return linalg_vector_norm(c.in(0), 2, dim, keepdim, dtype);
}

OptionalIntArrayRef ints_if(const Call& c, size_t i) {
  return c.has_attr(i) ? OptionalIntArrayRef(c.ints(i)) : OptionalIntArrayRef();
}

Scalar order_if(const Call& c, size_t i) { return c.has_attr(i) ? c.scalar(i) : Scalar(2.0); }

// Attributes: ord, dim, keepdim, dtype.
Tensors compose_norm(const Call& c) {
  check_defined(c, 0, "self");
  const bool keep = c.flag(2);
  if (!c.has_attr(0)) return {frobenius(c, ints_if(c, 1), keep, c.dtype_if(3))};
  const bool matrix = c.has_attr(1) ? c.ints(1).size() == 2 : c.in(0).dim() == 2;
  PELLUCID_CHECK(matrix || c.has_attr(1) || c.in(0).dim() <= 1, ShapeError,
                 "{}: with ord and without dim the tensor must have one or two dimensions, found "
                 "{} (sizes {}). Pass dim.",
                 c.name(), c.in(0).dim(), c.in(0).sizes());
  if (!matrix)
    return {linalg_vector_norm(c.in(0), c.scalar(0), ints_if(c, 1), keep, c.dtype_if(3))};
  return {matrix_norm(c, c.number(0), c.has_attr(1) ? c.ints(1) : IntArrayRef({0, 1}), keep,
                      c.dtype_if(3))};
}

void samples_of_norm(Samples& s) {
  s.add({sample_randn({2, 3}, 0.1)});
  s.add({sample_randn({2, 3}, 0.1), 1});
  s.add({sample_randn({2, 3, 2}, 0.1), 3, Value::ints({0, 2}), true});
  s.add({sample_randn({4, 3}, 0.1).permute({1, 0}), 1.5, Value::ints({0})});
  s.add({sample_randn({3, 3}, 0.1), 0.5, Value::ints({1})});
  s.add({sample_randn({2, 5}, 0.1), INFINITY, Value::ints({1})});
  s.add({sample_randn({2, 5}, 0.1), -INFINITY, Value::ints({-1})});
  s.add({sample_randn({2, 3}, 0.1), 0});
  s.add({sample_randn({0, 3}), 2, Value::ints({0})});
  s.add({sample_randn({}, 0.1), 2});
  s.error({sample_randn({0, 3}), INFINITY}, "of nothing is not defined");
  s.error({sample_ints({3}, 0, 5)}, "a norm is floating");
  s.error({sample_randn({2, 3}), 2, Value::ints({2})}, "dim 2 is out of range");
  s.large([] { return Values{randn({4096, 1024}), 2, Value::ints({1})}; });
}

}  // namespace

extern constinit const OpDef linalg_vector_norm_op = {
    .schema =
        "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
    .doc =
        "sum(|x|^ord)^(1/ord) over the given dims (all by default); inf and -inf are the extremes "
        "of |x|.",
    .kind = OpKind::Reduction,
    .infer = infer_norm,
    .cost =
        [](const Call& c) {
          return Cost{2.0 * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_norm,
    .saved = Saved::InputsAndOutputs,
    .vjp = norm_vjp,
    .onnx = {"ReduceL2", 13},
    .samples = samples_of_norm,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef norm_op = {
    .schema = "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
    .doc = "The p-norm of all elements.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {linalg_vector_norm(c.in(0), c.scalar(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1)});
          s.add({sample_randn({2, 3}, 0.1), 3.5});
        }};
extern constinit const OpDef norm_dim_op = {
    .schema =
        "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "The p-norm over the given dims.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {linalg_vector_norm(c.in(0), order_if(c, 0), c.ints(1), c.flag(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1), 1, Value::ints({1}), true});
          s.add({sample_randn({2, 3}, 0.1), {}, Value::ints({0})});
        }};
extern constinit const OpDef norm_dim_dtype_op = {
    .schema =
        "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType "
        "dtype) -> Tensor",
    .doc = "The p-norm over the given dims, computed in dtype.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {linalg_vector_norm(c.in(0), order_if(c, 0), c.ints(1), c.flag(2), c.dtype(3))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1), 2, Value::ints({1}), true}, {{"dtype", kFloat64}});
        }};
extern constinit const OpDef norm_dtype_op = {
    .schema = "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
    .doc = "The p-norm of all elements, computed in dtype.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {linalg_vector_norm(c.in(0), order_if(c, 0), std::nullopt, false, c.dtype(1))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1), 2}, {{"dtype", kFloat64}});
        }};

extern constinit const OpDef linalg_norm_op = {
    .schema =
        "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
    .doc = "A vector norm over one dim or a matrix norm over two.",
    .kind = OpKind::Reduction,
    .compose = compose_norm,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}, 0.1)});
      s.add({sample_randn({2, 3}, 0.1), 1});
      s.add({sample_randn({2, 3, 2}, 0.1), -INFINITY, Value::ints({0, 2}), true});
      s.add({sample_randn({2, 3}, 0.1), 3, Value::ints({1})});
      s.add({sample_randn({2, 3}), 2});
      s.error({sample_randn({2, 3}), 3}, "no matrix norm of order 3");
      s.error({sample_randn({2, 3, 2}), 1}, "Pass dim");
    }};

extern constinit const OpDef linalg_matrix_norm_op = {
    .schema =
        "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
    .doc =
        "The induced norm of matrices: the greatest sum of magnitudes in a column (1) or in a row "
        "(inf), or the greatest singular value (2); the least if negative.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {matrix_norm(c, c.number(0), c.ints(1), c.flag(2), c.dtype_if(3))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2}, 0.1), 1});
          s.add({sample_randn({2, 3, 2}, 0.1), INFINITY, Value::ints({0, 1}), true});
          s.add({sample_randn({3, 2}, 0.1), -1});
          s.add({sample_randn({3, 2}), 2});
          s.add({sample_randn({2, 3, 2}), -2, Value::ints({2, 0})});
          s.add({sample_randn({5, 0}), 1});
          s.add({sample_randn({0, 5}), 2});
          s.error({sample_randn({0, 5}), -INFINITY}, "of nothing is not defined");
          s.error({sample_randn({3, 2}), 0.5}, "no matrix norm of order 0.5");
          s.error({sample_randn({3}), 1}, "at least two dimensions");
          s.error({sample_randn({3, 2}), 1, Value::ints({0, 0})}, "two different dims");
        }};
extern constinit const OpDef linalg_matrix_norm_str_op = {
    .schema =
        "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool "
        "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The Frobenius norm of matrices, or the sum of their singular values ('nuc').",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      if (c.text(0) == "nuc") return {nuclear_norm(c, c.ints(1), c.flag(2), c.dtype_if(3))};
      PELLUCID_CHECK(c.text(0) == "fro", ValueError,
                     "linalg_matrix_norm: ord must be 'fro', 'nuc' or a number, found '{}'.",
                     c.text(0));
      return {frobenius(c, c.ints(1), c.flag(2), c.dtype_if(3))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 2}, 0.1)});
          s.add({sample_randn({3, 2}), "nuc"});
          s.add({sample_randn({3, 2, 2}), "nuc", Value::ints({0, 2}), true});
          s.error({sample_randn({3, 2}), "max"}, "ord must be 'fro', 'nuc' or a number");
        }};

extern constinit const OpDef dist_op = {
    .schema = "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    .doc = "The p-norm of self - other.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {linalg_vector_norm(c.in(0).sub(c.in(1)), c.scalar(0))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({2, 3})});
          s.add({sample_randn({2, 3}), sample_randn({3}), 3});
          s.error({sample_randn({2, 3}), sample_randn({2})}, "do not broadcast");
        }};

extern constinit const OpDef pairwise_distance_op = {
    .schema =
        "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-6, bool keepdim=False) "
        "-> Tensor",
    .doc = "The p-norm of x1 - x2 + eps along the last dim.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      return {
          linalg_vector_norm(c.in(0).sub(c.in(1)).add(c.number(1)), c.number(0), -1, c.flag(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({2, 3})});
          s.add({sample_randn({2, 3}), sample_randn({3}), 1.5, 1e-3, true});
          s.error({sample_randn({2, 3}), sample_randn({2})}, "do not broadcast");
        }};

}  // namespace pellucid
