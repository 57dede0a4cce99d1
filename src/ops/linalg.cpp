// Matrix products: mm, bmm, mv, dot and matmul of any ranks, and the linear layer. Operands are
// never copied to be transposed: their strides go to kernels/gemm. Products that add to a tensor
// are in linalg_add.cpp, compositions in linalg_composed.cpp.
#include "ops/linalg.h"

#include <algorithm>

namespace pellucid {

namespace {

struct BatchDim {
  int64_t size, a, b, c;  // elements to the next matrix of self, other and out
};

// The largest dimension is one batched product; the others are loops around it.
struct Batches {
  Batches(const Tensor& self, const Tensor& other, const Tensor& out);
  BatchDim inner{1, 0, 0, 0};
  std::vector<BatchDim> outer;
};

Batches::Batches(const Tensor& self, const Tensor& other, const Tensor& out) {
  const IntArrayRef sizes = out.sizes();
  const size_t batch_dims = sizes.size() - 2;
  const auto step = [&](const Tensor& t, size_t d) -> int64_t {  // 0 where t is repeated
    const size_t from_end = sizes.size() - d, own = t.sizes().size();
    if (from_end > own || t.sizes()[own - from_end] == 1) return 0;
    return t.raw_strides()[own - from_end];
  };
  for (size_t d = 0; d < batch_dims; ++d) {
    if (sizes[d] == 1) continue;
    const BatchDim next{sizes[d], step(self, d), step(other, d), step(out, d)};
    if (!outer.empty()) {
      BatchDim& last = outer.back();
      if (last.a == next.a * next.size && last.b == next.b * next.size &&
          last.c == next.c * next.size) {
        last = {last.size * next.size, next.a, next.b, next.c};
        continue;
      }
    }
    outer.push_back(next);
  }
  const auto largest =
      std::max_element(outer.begin(), outer.end(),
                       [](const BatchDim& x, const BatchDim& y) { return x.size < y.size; });
  if (largest == outer.end()) return;
  inner = *largest;
  outer.erase(largest);
}

}  // namespace

bool runs_by_matrix(const Tensor& self, const Tensor& other, const Tensor& out) {
  const IntArrayRef sizes = out.sizes();
  const BatchDim inner = Batches(self, other, out).inner;
  return inner.size > 1 && inner.b != 0 &&
         kernels::bgemm_is_by_matrix(inner.size, sizes[sizes.size() - 2], sizes.back(),
                                     self.sizes().back());
}

template <class T>
void run_batched(const Tensor& self, const Tensor& other, const Tensor& out, T alpha, T beta,
                 const kernels::Epilogue* then) {
  if (out.numel() == 0) return;
  const Batches batches(self, other, out);
  const BatchDim& inner = batches.inner;
  const std::vector<BatchDim>& dims = batches.outer;
  const IntArrayRef sizes = out.sizes();
  auto a = matrix_view<const T>(self);
  auto b = matrix_view<const T>(other);
  auto c = matrix_view<T>(out);
  const int64_t m = sizes[sizes.size() - 2], n = sizes[sizes.size() - 1], k = self.sizes().back();
  std::vector<int64_t> at(dims.size(), 0);
  while (true) {
    kernels::bgemm<T>(inner.size, m, n, k, alpha, a, inner.a, b, inner.b, beta, c, inner.c, then);
    size_t d = dims.size();
    while (d-- > 0) {
      a.data += dims[d].a, b.data += dims[d].b, c.data += dims[d].c;
      if (++at[d] < dims[d].size) break;
      a.data -= dims[d].a * dims[d].size, b.data -= dims[d].b * dims[d].size,
          c.data -= dims[d].c * dims[d].size;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

#define PELLUCID_INSTANTIATE(T)                                                   \
  template void run_batched<T>(const Tensor&, const Tensor&, const Tensor&, T, T, \
                               const kernels::Epilogue*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
PELLUCID_INSTANTIATE(Half)
PELLUCID_INSTANTIATE(BFloat16)
PELLUCID_INSTANTIATE(int64_t)
PELLUCID_INSTANTIATE(int32_t)
PELLUCID_INSTANTIATE(int16_t)
PELLUCID_INSTANTIATE(int8_t)
PELLUCID_INSTANTIATE(uint8_t)
PELLUCID_INSTANTIATE(bool)
#undef PELLUCID_INSTANTIATE

namespace {

double product_flops(const Call& c) {
  return 2.0 * static_cast<double>(c.out().numel()) * static_cast<double>(c.in(0).sizes().back());
}

Cost product_cost(const Call& c) { return {product_flops(c), moved_bytes(c)}; }

void infer_mm(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "mat2");
  const Tensor &a = c.in(0), &b = c.in(1);
  check_dim(c, a, 2, "self");
  check_dim(c, b, 2, "mat2");
  PELLUCID_CHECK(a.size(1) == b.size(0), ShapeError,
                 "mm: self.size(1) is {} but mat2.size(0) is {} (self {}, mat2 {}). For a weight "
                 "stored as [out, in], pass weight.t().",
                 a.size(1), b.size(0), a.sizes(), b.sizes());
  check_same_dtype(c, a, b);
  c.make_output({a.size(0), b.size(1)}, a.dtype());
}

void run_mm(Call& c) {
  if (tell_root(c)) return;
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    const Tensor &a = c.in(0), &b = c.in(1);
    multiply<T>(a.sizes()[0], b.sizes()[1], a.sizes()[1], T(1), matrix_view<const T>(a),
                matrix_view<const T>(b), T(0), matrix_view<T>(c.out()), epilogue_of(c));
  });
}

void run_product(Call& c) {
  if (tell_root(c, c.described() && runs_by_matrix(c.in(0), c.in(1), c.out()))) return;
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    run_batched<T>(c.in(0), c.in(1), c.out(), T(1), T(0), epilogue_of(c));
  });
}

Tensors product_vjp(const Vjp& v) {
  return {v.needs(0) ? matmul(v.grad, v.in(1).mT()) : Tensor(),
          v.needs(1) ? matmul(v.in(0).mT(), v.grad) : Tensor()};
}

void infer_bmm(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "mat2");
  const Tensor &a = c.in(0), &b = c.in(1);
  check_dim(c, a, 3, "self");
  check_dim(c, b, 3, "mat2");
  PELLUCID_CHECK(
      a.size(0) == b.size(0), ShapeError,
      "bmm: self has {} matrices but mat2 has {} (self {}, mat2 {}). matmul() broadcasts.",
      a.size(0), b.size(0), a.sizes(), b.sizes());
  PELLUCID_CHECK(a.size(2) == b.size(1), ShapeError,
                 "bmm: self.size(2) is {} but mat2.size(1) is {} (self {}, mat2 {}). Transpose one "
                 "with .mT().",
                 a.size(2), b.size(1), a.sizes(), b.sizes());
  check_same_dtype(c, a, b);
  c.make_output({a.size(0), a.size(1), b.size(2)}, a.dtype());
}

void infer_batched_matmul(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  const IntArrayRef a = c.in(0).sizes(), b = c.in(1).sizes();
  PELLUCID_CHECK(a.size() >= 2 && b.size() >= 2, ShapeError,
                 "_batched_matmul: both tensors need at least 2 dimensions, found sizes {} and {}.",
                 a, b);
  PELLUCID_CHECK(
      a.back() == b[b.size() - 2], ShapeError,
      "_batched_matmul: self.size(-1) is {} but other.size(-2) is {} (self {}, other {}).",
      a.back(), b[b.size() - 2], a, b);
  check_same_dtype(c, c.in(0), c.in(1));
  Dims sizes = broadcast_sizes("matmul", a.slice(0, a.size() - 2), b.slice(0, b.size() - 2));
  sizes.push_back(a[a.size() - 2]);
  sizes.push_back(b.back());
  c.make_output(sizes, c.in(0).dtype());
}

void infer_mv(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "vec");
  const Tensor &a = c.in(0), &x = c.in(1);
  check_dim(c, a, 2, "self");
  check_dim(c, x, 1, "vec");
  PELLUCID_CHECK(a.size(1) == x.size(0), ShapeError,
                 "mv: self.size(1) is {} but vec.size(0) is {} (self {}, vec {}).", a.size(1),
                 x.size(0), a.sizes(), x.sizes());
  check_same_dtype(c, a, x);
  c.make_output({a.size(0)}, a.dtype());
}

void run_mv(Call& c) {
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    const Tensor &a = c.in(0), &x = c.in(1);
    kernels::gemm<T>(a.sizes()[0], 1, a.sizes()[1], T(1), matrix_view<const T>(a),
                     {x.raw<T>(), x.raw_strides()[0], 1}, T(0), {c.out().raw<T>(), 1, 1});
  });
}

void infer_dot(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "tensor");
  const Tensor &a = c.in(0), &b = c.in(1);
  PELLUCID_CHECK(a.dim() == 1 && b.dim() == 1, ShapeError,
                 "{}: both tensors must be 1-dimensional, found sizes {} and {}. Use matmul() or "
                 "(a * b).sum().",
                 c.name(), a.sizes(), b.sizes());
  PELLUCID_CHECK(a.numel() == b.numel(), ShapeError,
                 "{}: the tensors have {} and {} elements; they must have as many as each other.",
                 c.name(), a.numel(), b.numel());
  check_same_dtype(c, a, b);
  c.make_output({}, a.dtype());
}

void run_dot(Call& c) {
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    const Tensor &a = c.in(0), &b = c.in(1);
    *c.out().raw<T>() =
        kernels::dot<T>(a.numel(), a.raw<T>(), a.raw_strides()[0], b.raw<T>(), b.raw_strides()[0]);
  });
}

// Whether [..., m, k] can be seen as [-1, k] without copying.
bool folds(const Tensor& t) {
  const IntArrayRef sizes = t.sizes(), strides = t.raw_strides();
  int64_t whole = -1;  // elements of all dims behind that are larger than 1; -1 before the first
  for (size_t d = sizes.size() - 1; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (whole >= 0 && strides[d] != whole) return false;
    whole = strides[d] * sizes[d];
  }
  return true;
}

bool tracks_gradient(const Tensor& t) {
  return autograd::GradMode::is_enabled() && t.requires_grad();
}

void check_matmul(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  const Tensor &a = c.in(0), &b = c.in(1);
  PELLUCID_CHECK(
      a.dim() >= 1 && b.dim() >= 1, ShapeError,
      "matmul: both tensors need at least 1 dimension (self {}, other {}). Use mul() for numbers.",
      a.sizes(), b.sizes());
  const int64_t inner = b.dim() == 1 ? -1 : -2;
  PELLUCID_CHECK(a.size(-1) == b.size(inner), ShapeError,
                 "matmul: self.size(-1) is {} but other.size({}) is {} (self {}, other {}). For a "
                 "weight stored as [out, in], pass weight.t().",
                 a.size(-1), inner, b.size(inner), a.sizes(), b.sizes());
  check_same_dtype(c, a, b);
}

// PyTorch's rules for ranks: a vector is a row on the left and a column on the right, batches
// broadcast.
Tensor compose_matmul(const Call& c) {
  check_matmul(c);
  const Tensor &a = c.in(0), &b = c.in(1);
  const int64_t ad = a.dim(), bd = b.dim();
  if (ad == 1 && bd == 1) return a.dot(b);
  if (ad == 2 && bd == 1) return a.mv(b);
  if (ad == 1 && bd == 2) return b.t().mv(a);
  if (ad == 2 && bd == 2) return a.mm(b);
  a.expose();
  b.expose();
  if (bd <= 2) {
    // One tall product. A copy is worth it where the gradient of b would else be a batch of
    // matrices to sum.
    if (a.numel() != 0 && (folds(a) || tracks_gradient(b))) {
      const Tensor tall = a.reshape({-1, a.size(-1)});
      Dims sizes(a.sizes());
      sizes.pop_back();
      if (bd == 1) return tall.mv(b).view(sizes);
      sizes.push_back(b.size(-1));
      return tall.mm(b).view(sizes);
    }
    return bd == 1 ? _batched_matmul(a, b.unsqueeze(-1)).squeeze(-1) : _batched_matmul(a, b);
  }
  if (ad == 1) return _batched_matmul(b.mT(), a.unsqueeze(-1)).squeeze(-1);
  if (ad == 2 && tracks_gradient(a) && b.numel() != 0) return matmul(b.mT(), a.t()).mT();
  return ad == 3 && bd == 3 && a.size(0) == b.size(0) ? a.bmm(b) : _batched_matmul(a, b);
}

void infer_linear(Call& c) {
  check_defined(c, 0, "input");
  check_defined(c, 1, "weight");
  const Tensor &x = c.in(0), &w = c.in(1);
  PELLUCID_CHECK(x.dim() >= 1, ShapeError,
                 "linear: 'input' needs at least 1 dimension, found sizes {}.", x.sizes());
  PELLUCID_CHECK(w.dim() == 1 || w.dim() == 2, ShapeError,
                 "linear: 'weight' must be [out, in] or [in], found sizes {}.", w.sizes());
  PELLUCID_CHECK(x.size(-1) == w.size(-1), ShapeError,
                 "linear: input.size(-1) is {} but weight.size(-1) is {} (input {}, weight {}). "
                 "The weight is stored as [out, in].",
                 x.size(-1), w.size(-1), x.sizes(), w.sizes());
  check_same_dtype(c, x, w);
  Dims sizes(x.sizes());
  sizes.pop_back();
  if (w.dim() == 2) sizes.push_back(w.size(0));
  if (c.has_in(2)) {
    check_same_dtype(c, w, c.in(2));
    PELLUCID_CHECK(c.in(2).dim() <= 1 &&
                       broadcasts_to(c.in(2).sizes(), w.sizes().slice(0, w.sizes().size() - 1)),
                   ShapeError,
                   "linear: 'bias' must have one element for each of the weight's rows, found "
                   "sizes {} (weight {}).",
                   c.in(2).sizes(), w.sizes());
  }
  c.make_output(sizes, x.dtype());
}

void run_linear(Call& c) {
  if (tell_root(c)) return;
  const NoGradGuard off;
  const Tensor& w = c.in(1);
  const Tensor x = folds(c.in(0)) ? c.in(0) : contiguous_values(c.in(0));
  const int64_t k = w.sizes().back(), n = w.dim() == 2 ? w.sizes()[0] : 1,
                m = n == 0 ? 0 : c.out().numel() / n;
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    T* const out = c.out().raw<T>();
    const kernels::MatrixView<const T> rows{x.raw<T>(), row_step(x), x.raw_strides().back()};
    const kernels::MatrixView<const T> columns{w.raw<T>(), w.raw_strides().back(),
                                               w.dim() == 2 ? w.raw_strides()[0] : 1};
    if (!c.has_in(2))
      return multiply<T>(m, n, k, T(1), rows, columns, T(0), {out, n, 1}, epilogue_of(c));
    const Tensor& bias = c.in(2);
    kernels::gemm_bias<T>(m, n, k, rows, columns, bias.raw<T>(),
                          bias.numel() == 1 ? 0 : bias.raw_strides()[0], out, n, epilogue_of(c));
  });
}

// All leading dimensions as one; a matrix is that already.
Tensor as_matrix(const Tensor& t, int64_t rows, int64_t columns) {
  return t.dim() == 2 && t.size(1) == columns ? t : t.reshape({rows, columns});
}

int64_t linear_scratch(const Call& c) {
  const Tensor &x = c.in(0), &w = c.in(1);
  const int64_t n = w.dim() == 2 ? w.sizes()[0] : 1;
  if (c.out().numel() == 0) return 0;
  const int64_t copy = folds(x) ? 0 : static_cast<int64_t>(x.nbytes());
  return copy + rows_scratch(x, w, c.out().numel() / n);
}

Tensors linear_vjp(const Vjp& v) {
  Tensors out(3);
  const bool matrix = v.in_sizes(1).size() == 2;
  if (v.needs(0)) out[0] = matrix ? matmul(v.grad, v.in(1)) : v.grad.unsqueeze(-1).mul(v.in(1));
  if (v.needs(1)) {
    const Tensor rows = as_matrix(v.in(0), -1, std::max<int64_t>(v.in_sizes(1).back(), 1));
    if (v.in(0).numel() == 0)
      out[1] = zeros(v.in_sizes(1), v.in_dtype(1));
    else if (matrix)
      out[1] = as_matrix(v.grad, rows.size(0), v.in_sizes(1)[0]).t().mm(rows);
    else
      out[1] = rows.t().mv(v.grad.reshape({-1}));
  }
  if (v.needs(2)) out[2] = v.grad;
  return out;
}

}  // namespace

extern constinit const OpDef mm_op = {
    .schema = "mm(Tensor self, Tensor mat2) -> Tensor",
    .doc = "The product of two matrices: out[i, j] = sum over k of self[i, k] * mat2[k, j].",
    .kind = OpKind::Contraction,
    .infer = infer_mm,
    .cost = product_cost,
    .scratch = product_scratch,
    .kernel = run_mm,
    .saved = Saved::Crossed,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.mm(v.in(1).t()) : Tensor(),
              v.needs(1) ? v.in(0).t().mm(v.grad) : Tensor()};
    },
    .onnx = {"MatMul", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({3, 4})});
          s.add({sample_randn({3, 2}).t(), sample_randn({4, 3}).t()});
          s.add({sample_randn({1, 3}).expand({2, 3}), sample_randn({6, 4}).slice(0, 0, 6, 2)});
          s.add({sample_randn({0, 3}), sample_randn({3, 4})});
          s.add({sample_randn({2, 0}), sample_randn({0, 4})});
          s.add_no_grad({sample_ints({2, 3}, -5, 5), sample_ints({3, 2}, -5, 5)});
          s.error({sample_randn({2, 3}), sample_randn({4, 5})},
                  "mm: self.size(1) is 3 but mat2.size(0) is 4");
          s.error({sample_randn({2, 3}), sample_randn({3})}, "'mat2' must have 2 dimensions");
          s.error({sample_randn({2, 3}), sample_ints({3, 2}, 0, 2)}, "found float64 and int64");
          s.large([] { return Values{randn({1024, 768}), randn({768, 3072})}; });
        },
    .describes = true};

extern constinit const OpDef bmm_op = {
    .schema = "bmm(Tensor self, Tensor mat2) -> Tensor",
    .doc = "A product of matrices for each index of the first dimension.",
    .kind = OpKind::Contraction,
    .infer = infer_bmm,
    .cost = product_cost,
    .scratch = product_scratch,
    .kernel = run_product,
    .saved = Saved::Crossed,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.bmm(v.in(1).mT()) : Tensor(),
              v.needs(1) ? v.in(0).mT().bmm(v.grad) : Tensor()};
    },
    .onnx = {"MatMul", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({3, 2, 2}).transpose(0, 2), sample_randn({2, 2, 3}).mT()});
          s.add({sample_randn({1, 2, 3}).expand({2, 2, 3}), sample_randn({2, 3, 1})});
          s.add({sample_randn({0, 2, 3}), sample_randn({0, 3, 2})});
          s.error({sample_randn({2, 2, 3}), sample_randn({2, 4, 2})},
                  "bmm: self.size(2) is 3 but mat2.size(1) is 4");
          s.error({sample_randn({2, 2, 3}), sample_randn({3, 3, 2})},
                  "self has 2 matrices but mat2 has 3");
          s.error({sample_randn({2, 3}), sample_randn({3, 3, 2})}, "'self' must have 3 dimensions");
          s.large([] { return Values{randn({48, 256, 64}), randn({48, 64, 256})}; });
        },
    .describes = true};

extern constinit const OpDef batched_matmul_op = {
    .schema = "_batched_matmul(Tensor self, Tensor other) -> Tensor",
    .doc =
        "Matrix products over the last two dimensions with the leading ones broadcast, without "
        "copying an operand.",
    .kind = OpKind::Contraction,
    .infer = infer_batched_matmul,
    .cost = product_cost,
    .scratch = product_scratch,
    .kernel = run_product,
    .saved = Saved::Crossed,
    .vjp = product_vjp,
    .onnx = {"MatMul", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 1, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2, 2, 2, 2}).transpose(1, 2),
                 sample_randn({2, 2, 2, 3}).transpose(1, 2)});
          s.add({sample_randn({2, 0, 2, 3}), sample_randn({3, 1})});
          s.error({sample_randn({2, 2, 3}), sample_randn({2})}, "at least 2 dimensions");
          s.large([] {
            return Values{randn({4, 256, 12, 64}).transpose(1, 2),
                          randn({4, 256, 12, 64}).permute({0, 2, 3, 1})};
          });
        },
    .describes = true};

extern constinit const OpDef mv_op = {
    .schema = "mv(Tensor self, Tensor vec) -> Tensor",
    .doc = "The product of a matrix and a vector.",
    .kind = OpKind::Contraction,
    .infer = infer_mv,
    .cost = product_cost,
    .kernel = run_mv,
    .saved = Saved::Crossed,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.outer(v.in(1)) : Tensor(),
              v.needs(1) ? v.in(0).t().mv(v.grad) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({3})});
          s.add({sample_randn({3, 2}).t(), sample_randn({6}).slice(0, 0, 6, 2)});
          s.add({sample_randn({2, 0}), sample_randn({0})});
          s.error({sample_randn({2, 3}), sample_randn({4})},
                  "mv: self.size(1) is 3 but vec.size(0) is 4");
          s.error({sample_randn({2, 3}), sample_randn({3, 1})}, "'vec' must have 1 dimension");
          s.large([] { return Values{randn({4096, 1024}), randn({1024})}; });
        }};

extern constinit const OpDef dot_op = {
    .schema = "dot(Tensor self, Tensor tensor) -> Tensor",
    .doc = "The sum of self[i] * tensor[i].",
    .kind = OpKind::Contraction,
    .infer = infer_dot,
    .cost =
        [](const Call& c) {
          return Cost{2.0 * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_dot,
    .saved = Saved::Crossed,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.in(1).mul(v.grad) : Tensor(),
              v.needs(1) ? v.in(0).mul(v.grad) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4}), sample_randn({4})});
          s.add({sample_randn({8}).slice(0, 0, 8, 2), sample_randn({1}).expand({4})});
          s.add({sample_randn({0}), sample_randn({0})});
          s.error({sample_randn({4}), sample_randn({3})}, "4 and 3 elements");
          s.error({sample_randn({2, 2}), sample_randn({4})}, "must be 1-dimensional");
          s.large([] { return Values{randn({4096 * 1024}), randn({4096 * 1024})}; });
        }};

extern constinit const OpDef vdot_op = {.schema = "vdot(Tensor self, Tensor other) -> Tensor",
                                        .doc = "dot; all dtypes are real.",
                                        .kind = OpKind::Contraction,
                                        .compose = [](const Call& c) -> Tensors {
                                          check_defined(c, 0, "self");
                                          check_defined(c, 1, "other");
                                          return {dot(c.in(0), c.in(1))};
                                        },
                                        .samples =
                                            [](Samples& s) {
                                              s.add({sample_randn({4}), sample_randn({4})});
                                            }};

extern constinit const OpDef matmul_op = {
    .schema = "matmul|linalg_matmul(Tensor self, Tensor other) -> Tensor",
    .doc =
        "Matrix product over the last two dimensions; leading dimensions broadcast, a vector is a "
        "row on the left and a column on the right.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_matmul(c)}; },
    .onnx = {"MatMul", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3}), sample_randn({3})});
          s.add({sample_randn({2, 3}), sample_randn({3})});
          s.add({sample_randn({3}), sample_randn({3, 2})});
          s.add({sample_randn({2, 3}), sample_randn({3, 4})});
          s.add({sample_randn({2, 2, 3}), sample_randn({3, 2})});
          s.add({sample_randn({2, 3, 2}).mT(), sample_randn({3, 2})});
          s.add({sample_randn({2, 2, 3}), sample_randn({3})});
          s.add({sample_randn({3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2, 1, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({0, 2, 3}), sample_randn({3, 2})});
          s.add({sample_randn({2, 2, 0}), sample_randn({0, 3})});
          s.add_no_grad({sample_ints({2, 2, 3}, -5, 5), sample_ints({3, 2}, -5, 5)});
          s.error({sample_randn({2, 3}), sample_randn({4, 5})},
                  "matmul: self.size(-1) is 3 but other.size(-2) is 4 (self [2, 3], other [4, 5])");
          s.error({sample_randn({2, 3}), sample_randn({2})}, "other.size(-1) is 2");
          s.error({sample_randn({2, 2, 3}), sample_randn({3, 3, 2})}, "do not broadcast");
          s.error({sample_randn({}), sample_randn({2})}, "at least 1 dimension");
          s.error({sample_randn({2, 3}), sample_randn({3, 2}).to(kFloat32)},
                  "found float64 and float32");
          s.large([] { return Values{randn({256, 256}), randn({256, 256})}; });
        }};

extern constinit const OpDef linear_op = {
    .schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    .doc = "input @ weight.t() + bias, with the weight stored as [out, in].",
    .kind = OpKind::Contraction,
    .infer = infer_linear,
    .cost =
        [](const Call& c) {
          const double bias = c.has_in(2) ? static_cast<double>(c.out().numel()) : 0;
          return Cost{product_flops(c) + bias, moved_bytes(c), bias};
        },
    .scratch = linear_scratch,
    .kernel = run_linear,
    .saved = Saved{0b011, 0, 0b011},
    .vjp = linear_vjp,
    .onnx = {"Gemm", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({4, 3}), sample_randn({4})});
          s.add({sample_randn({2, 3}), sample_randn({4, 3})});
          s.add({sample_randn({3}), sample_randn({2, 3}), sample_randn({2})});
          s.add({sample_randn({2, 2, 3}), sample_randn({2, 3}), sample_randn({2})});
          s.add({sample_randn({2, 3, 2}).mT(), sample_randn({3, 2}).t(),
                 sample_randn({4}).slice(0, 0, 4, 2)});
          s.add({sample_randn({2, 3}), sample_randn({3})});
          s.add({sample_randn({0, 3}), sample_randn({2, 3}), sample_randn({2})});
          // Contiguous, but the size of 1 has the stride that it had elsewhere.
          s.add({sample_randn({1, 3, 2}).permute({1, 0, 2}), sample_randn({4, 2}),
                 sample_randn({4})});
          s.error({sample_randn({2, 3}), sample_randn({3, 4})},
                  "linear: input.size(-1) is 3 but weight.size(-1) is 4");
          s.error({sample_randn({2, 3}), sample_randn({4, 3}), sample_randn({3})},
                  "'bias' must have one element for each of the weight's rows");
          s.error({sample_randn({2, 3}), sample_randn({4, 3}).to(kFloat32)},
                  "found float64 and float32");
          s.large([] { return Values{randn({512, 768}), randn({3072, 768}), randn({3072})}; });
        },
    .describes = true};

}  // namespace pellucid
