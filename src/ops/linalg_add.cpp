// Products that add to a tensor: beta * self + alpha * (product), self broadcast. With beta = 0
// self is not read, so its NaNs do not spread. In place the product is added where self is.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/reduce_lanes.h"
#include "ops/linalg.h"

namespace pellucid {
namespace {

// self, first operand, second operand; attributes beta and alpha.
constexpr Saved kOperands{0b110, 0, true};

void check_inputs(const Call& c, std::string_view first, std::string_view second) {
  check_defined(c, 0, "self");
  check_defined(c, 1, first);
  check_defined(c, 2, second);
  check_same_dtype(c, c.in(1), c.in(2));
  check_same_dtype(c, c.in(0), c.in(1));
  PELLUCID_CHECK(is_floating(c.in(0).dtype()) ||
                     !(c.scalar(0).isFloatingPoint() || c.scalar(1).isFloatingPoint()),
                 TypeError, "{}: beta {} and alpha {} must be integers for tensors of dtype {}.",
                 c.name(), c.scalar(0), c.scalar(1), c.in(0).dtype());
}

void make_sum_output(Call& c, IntArrayRef sizes) {
  PELLUCID_CHECK(broadcasts_to(c.in(0).sizes(), sizes), ShapeError,
                 "{}: self of sizes {} does not broadcast to the product's sizes {}.", c.name(),
                 c.in(0).sizes(), sizes);
  c.make_output(sizes, c.in(0).dtype());
}

void check_inner(const Call& c, int64_t a, int64_t b) {
  PELLUCID_CHECK(a == b, ShapeError,
                 "{}: the inner sizes of the product differ: {} and {} (sizes {} and {}).",
                 c.name(), a, b, c.in(1).sizes(), c.in(2).sizes());
}

// out = self, broadcast, unless it is self already or will not be read.
void start_from_self(Call& c) {
  if (c.in_place() || c.scalar(0).equal(0) || c.out().numel() == 0) return;
  const detail::TensorImpl& to = c.out().impl();
  const detail::TensorImpl& from = c.in(0).impl();
  Dims strides(to.sizes.size(), 0);
  for (size_t i = 0; i < from.sizes.size(); ++i)
    strides[to.sizes.size() - from.sizes.size() + i] = from.sizes[i] == 1 ? 0 : from.strides[i];
  kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), from.data(), from.dtype,
                        strides.data());
}

// An operand that shares the memory to be written is read from a copy.
Tensor operand(const Call& c, size_t i) {
  const NoGradGuard off;
  return c.in_place() && c.in(i).is_alias_of(c.out()) ? c.in(i).clone() : c.in(i);
}

// out = beta out + alpha a @ b, all seen as matrices.
template <class F> void run_sum(Call& c, F&& product) {
  const Tensor a = operand(c, 1), b = operand(c, 2);
  start_from_self(c);
  visit(c.out().dtype(), [&](auto v) {
    using T = decltype(v);
    product(v, a, b, c.scalar(1).to<T>(), c.scalar(0).to<T>());
  });
}

double sum_flops(const Call& c) {
  return c.scalar(0).equal(0) ? 0 : static_cast<double>(c.out().numel());
}

Cost matrix_cost(const Call& c) {
  return {2.0 * static_cast<double>(c.out().numel()) * static_cast<double>(c.in(1).sizes().back()) +
              sum_flops(c),
          moved_bytes(c), sum_flops(c)};
}

void infer_addmm(Call& c) {
  check_inputs(c, "mat1", "mat2");
  check_dim(c, c.in(1), 2, "mat1");
  check_dim(c, c.in(2), 2, "mat2");
  check_inner(c, c.in(1).size(1), c.in(2).size(0));
  make_sum_output(c, {c.in(1).size(0), c.in(2).size(1)});
}

void run_addmm(Call& c) {
  if (tell_root(c)) return;
  run_sum(c, [&](auto v, const Tensor& a, const Tensor& b, auto alpha, auto beta) {
    using T = decltype(v);
    multiply<T>(a.sizes()[0], b.sizes()[1], a.sizes()[1], alpha, matrix_view<const T>(a),
                matrix_view<const T>(b), beta, matrix_view<T>(c.out()), epilogue_of(c));
  });
}

void infer_addmv(Call& c) {
  check_inputs(c, "mat", "vec");
  check_dim(c, c.in(1), 2, "mat");
  check_dim(c, c.in(2), 1, "vec");
  check_inner(c, c.in(1).size(1), c.in(2).size(0));
  make_sum_output(c, {c.in(1).size(0)});
}

void run_addmv(Call& c) {
  run_sum(c, [&](auto v, const Tensor& a, const Tensor& x, auto alpha, auto beta) {
    using T = decltype(v);
    kernels::gemm<T>(a.sizes()[0], 1, a.sizes()[1], alpha, matrix_view<const T>(a),
                     {x.raw<T>(), x.raw_strides()[0], 1}, beta,
                     {c.out().raw<T>(), c.out().raw_strides()[0], 1});
  });
}

void infer_addr(Call& c) {
  check_inputs(c, "vec1", "vec2");
  check_dim(c, c.in(1), 1, "vec1");
  check_dim(c, c.in(2), 1, "vec2");
  make_sum_output(c, {c.in(1).size(0), c.in(2).size(0)});
}

/// addr in one pass over memory, where everything is dense and of type T.
template <class T> void add_outer(const Call& c) {
  const int64_t rows = c.in(1).numel(), columns = c.in(2).numel();
  const T alpha = c.scalar(1).to<T>(), beta = c.scalar(0).to<T>();
  parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const T *self = c.in(0).raw<T>() + r * columns, *y = c.in(2).raw<T>();
                   const T scale = alpha * c.in(1).raw<T>()[r];
                   T* out = c.out().raw<T>() + r * columns;
                   kernels::at_isa([=](auto) {
                     if (beta == T(0)) {
#pragma GCC ivdep
                       for (int64_t j = 0; j < columns; ++j) out[j] = scale * y[j];
                     } else {
#pragma GCC ivdep
                       for (int64_t j = 0; j < columns; ++j) out[j] = beta * self[j] + scale * y[j];
                     }
                   });
                 }
               });
}

void run_addr(Call& c) {
  const auto dense = [](const Tensor& t) { return t.impl().is_contiguous(); };
  const DType type = c.out().dtype();
  if ((type == kFloat32 || type == kFloat64) && c.in(0).sizes() == c.out().sizes() &&
      dense(c.in(0)) && dense(c.in(1)) && dense(c.in(2)) && dense(c.out()))
    return type == kFloat32 ? add_outer<float>(c) : add_outer<double>(c);
  run_sum(c, [&](auto v, const Tensor& x, const Tensor& y, auto alpha, auto beta) {
    using T = decltype(v);
    kernels::gemm<T>(x.numel(), y.numel(), 1, alpha, {x.raw<T>(), x.raw_strides()[0], 1},
                     {y.raw<T>(), 1, y.raw_strides()[0]}, beta, matrix_view<T>(c.out()));
  });
}

void check_batches(const Call& c) {
  check_inputs(c, "batch1", "batch2");
  check_dim(c, c.in(1), 3, "batch1");
  check_dim(c, c.in(2), 3, "batch2");
  PELLUCID_CHECK(c.in(1).size(0) == c.in(2).size(0), ShapeError,
                 "{}: batch1 has {} matrices but batch2 has {} (sizes {} and {}).", c.name(),
                 c.in(1).size(0), c.in(2).size(0), c.in(1).sizes(), c.in(2).sizes());
  check_inner(c, c.in(1).size(2), c.in(2).size(1));
}

void infer_baddbmm(Call& c) {
  check_batches(c);
  make_sum_output(c, {c.in(1).size(0), c.in(1).size(1), c.in(2).size(2)});
}

void run_baddbmm(Call& c) {
  if (tell_root(c, c.described() && runs_by_matrix(c.in(1), c.in(2), c.out()))) return;
  run_sum(c, [&](auto v, const Tensor& a, const Tensor& b, auto alpha, auto beta) {
    using T = decltype(v);
    run_batched<T>(a, b, c.out(), alpha, beta, epilogue_of(c));
  });
}

void infer_addbmm(Call& c) {
  check_batches(c);
  make_sum_output(c, {c.in(1).size(1), c.in(2).size(2)});
}

void run_addbmm(Call& c) {
  run_sum(c, [&](auto v, const Tensor& a, const Tensor& b, auto alpha, auto beta) {
    using T = decltype(v);
    const IntArrayRef sizes = a.sizes();
    const auto x = matrix_view<const T>(a), y = matrix_view<const T>(b);
    // An empty batch still leaves beta * self: a product over no inner elements.
    if (sizes[0] == 0)
      kernels::gemm<T>(sizes[1], b.sizes()[2], 0, alpha, x, y, beta, matrix_view<T>(c.out()));
    for (int64_t i = 0; i < sizes[0]; ++i)
      kernels::gemm<T>(sizes[1], b.sizes()[2], sizes[2], alpha, x.at(i * a.raw_strides()[0]),
                       y.at(i * b.raw_strides()[0]), i == 0 ? beta : T(1), matrix_view<T>(c.out()));
  });
}

Tensor self_gradient(const Vjp& v) { return v.needs(0) ? scaled(v.grad, v.scalar(0)) : Tensor(); }

}  // namespace

extern constinit const OpDef addmm_op = {
    .schema =
        "addmm[_](Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
    .doc = "beta * self + alpha * (mat1 @ mat2).",
    .kind = OpKind::Contraction,
    .infer = infer_addmm,
    .cost = matrix_cost,
    .kernel = run_addmm,
    .saved = kOperands,
    .vjp = [](const Vjp& v) -> Tensors {
      return {self_gradient(v), v.needs(1) ? scaled(v.grad.mm(v.in(2).t()), v.scalar(1)) : Tensor(),
              v.needs(2) ? scaled(v.in(1).t().mm(v.grad), v.scalar(1)) : Tensor()};
    },
    .onnx = {"Gemm", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 4}), sample_randn({2, 3}), sample_randn({3, 4})});
          s.add({sample_randn({4}), sample_randn({3, 2}).t(), sample_randn({4, 3}).t()},
                {{"beta", 0.5}, {"alpha", -2}});
          s.add({sample_randn({2, 1}), sample_randn({2, 3}), sample_randn({3, 4})}, {{"beta", 0}});
          s.add({sample_randn({2, 4}), sample_randn({2, 0}), sample_randn({0, 4})});
          s.add_no_grad(
              {sample_ints({2, 2}, -5, 5), sample_ints({2, 3}, -5, 5), sample_ints({3, 2}, -5, 5)},
              {{"beta", 2}});
          s.error({sample_randn({2, 4}), sample_randn({2, 3}), sample_randn({4, 4})},
                  "inner sizes of the product differ: 3 and 4");
          s.error({sample_randn({3, 4}), sample_randn({2, 3}), sample_randn({3, 4})},
                  "self of sizes [3, 4] does not broadcast to the product's sizes [2, 4]");
          s.error({sample_ints({2, 2}, 0, 5), sample_ints({2, 3}, 0, 5), sample_ints({3, 2}, 0, 5)},
                  "must be integers", {{"beta", 0.5}});
          s.large([] { return Values{randn({3072}), randn({512, 768}), randn({768, 3072})}; });
        },
    .writes_over = 1,
    .describes = true};

extern constinit const OpDef addmv_op = {
    .schema =
        "addmv[_](Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    .doc = "beta * self + alpha * (mat @ vec).",
    .kind = OpKind::Contraction,
    .infer = infer_addmv,
    .cost = matrix_cost,
    .kernel = run_addmv,
    .saved = kOperands,
    .vjp = [](const Vjp& v) -> Tensors {
      return {self_gradient(v), v.needs(1) ? scaled(v.grad.outer(v.in(2)), v.scalar(1)) : Tensor(),
              v.needs(2) ? scaled(v.in(1).t().mv(v.grad), v.scalar(1)) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2}), sample_randn({2, 3}), sample_randn({3})});
          s.add({sample_randn({}), sample_randn({3, 2}).t(), sample_randn({3})},
                {{"beta", 2}, {"alpha", 0.5}});
          s.error({sample_randn({2}), sample_randn({2, 3}), sample_randn({2})},
                  "inner sizes of the product differ: 3 and 2");
          s.large([] { return Values{randn({4096}), randn({4096, 1024}), randn({1024})}; });
        },
    .writes_over = 1};

extern constinit const OpDef addr_op = {
    .schema =
        "addr[_](Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
    .doc = "beta * self + alpha * outer(vec1, vec2).",
    .kind = OpKind::Contraction,
    .infer = infer_addr,
    .cost =
        [](const Call& c) {
          return Cost{2.0 * static_cast<double>(c.out().numel()) + sum_flops(c), moved_bytes(c),
                      sum_flops(c)};
        },
    .kernel = run_addr,
    .saved = kOperands,
    .vjp = [](const Vjp& v) -> Tensors {
      return {self_gradient(v), v.needs(1) ? scaled(v.grad.mv(v.in(2)), v.scalar(1)) : Tensor(),
              v.needs(2) ? scaled(v.grad.t().mv(v.in(1)), v.scalar(1)) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({2}), sample_randn({3})});
          s.add({sample_randn({3}), sample_randn({4}).slice(0, 0, 4, 2), sample_randn({3})},
                {{"beta", 0.5}, {"alpha", 3}});
          s.error({sample_randn({3, 3}), sample_randn({2}), sample_randn({3})},
                  "does not broadcast to the product's sizes [2, 3]");
          s.large([] { return Values{randn({4096, 1024}), randn({4096}), randn({1024})}; });
        },
    .writes_over = 1};

extern constinit const OpDef baddbmm_op = {
    .schema =
        "baddbmm[_](Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
        "-> Tensor",
    .doc = "beta * self + alpha * bmm(batch1, batch2).",
    .kind = OpKind::Contraction,
    .infer = infer_baddbmm,
    .cost = matrix_cost,
    .kernel = run_baddbmm,
    .saved = kOperands,
    .vjp = [](const Vjp& v) -> Tensors {
      return {self_gradient(v),
              v.needs(1) ? scaled(v.grad.bmm(v.in(2).mT()), v.scalar(1)) : Tensor(),
              v.needs(2) ? scaled(v.in(1).mT().bmm(v.grad), v.scalar(1)) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2, 2}), sample_randn({2, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2}), sample_randn({2, 3, 2}).mT(), sample_randn({2, 2, 3}).mT()},
                {{"beta", 0.5}, {"alpha", 2}});
          s.add({sample_randn({0, 2, 2}), sample_randn({0, 2, 3}), sample_randn({0, 3, 2})});
          s.error({sample_randn({2, 2, 2}), sample_randn({2, 2, 3}), sample_randn({2, 2, 2})},
                  "inner sizes of the product differ: 3 and 2");
          s.error({sample_randn({2, 2, 2}), sample_randn({3, 2, 3}), sample_randn({2, 3, 2})},
                  "batch1 has 3 matrices but batch2 has 2");
          s.large([] {
            return Values{randn({48, 256, 256}), randn({48, 256, 64}), randn({48, 64, 256})};
          });
        },
    .writes_over = 1,
    .describes = true};

extern constinit const OpDef addbmm_op = {
    .schema =
        "addbmm[_](Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
    .doc = "beta * self + alpha * (the sum over the batch of batch1[b] @ batch2[b]).",
    .kind = OpKind::Contraction,
    .infer = infer_addbmm,
    .cost =
        [](const Call& c) {
          return Cost{2.0 * static_cast<double>(c.out().numel()) *
                              static_cast<double>(c.in(1).size(0) * c.in(1).size(2)) +
                          sum_flops(c),
                      moved_bytes(c), sum_flops(c)};
        },
    .kernel = run_addbmm,
    .saved = kOperands,
    .vjp = [](const Vjp& v) -> Tensors {
      return {self_gradient(v),
              v.needs(1) ? scaled(matmul(v.grad, v.in(2).mT()), v.scalar(1)) : Tensor(),
              v.needs(2) ? scaled(matmul(v.in(1).mT(), v.grad), v.scalar(1)) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2}), sample_randn({2, 2, 3}), sample_randn({2, 3, 2})});
          s.add({sample_randn({2}), sample_randn({2, 3, 2}).mT(), sample_randn({2, 2, 3}).mT()},
                {{"beta", 0.5}, {"alpha", 2}});
          s.add({sample_randn({2, 2}), sample_randn({0, 2, 3}), sample_randn({0, 3, 2})},
                {{"beta", 3}});
          s.error({sample_randn({2, 2}), sample_randn({2, 2, 3}), sample_randn({2, 2, 2})},
                  "inner sizes of the product differ: 3 and 2");
          s.large([] {
            return Values{randn({256, 256}), randn({16, 256, 64}), randn({16, 64, 256})};
          });
        },
    .writes_over = 1};

}  // namespace pellucid
