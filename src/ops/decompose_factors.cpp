// Factors of matrices: Cholesky, QR, singular values, eigenvalues of symmetric matrices. The
// gradients are those of the literature (and PyTorch's): they hold where singular values or
// eigenvalues are distinct.
#include <algorithm>

#include "ops/decompose.h"

namespace pellucid {
namespace {

Dims with_last(IntArrayRef batch, std::initializer_list<int64_t> last) {
  Dims sizes(batch);
  for (const int64_t s : last) sizes.push_back(s);
  return sizes;
}

int64_t matrix_count(const Tensor& t) {
  int64_t n = 1;
  for (const int64_t s : batch_sizes(t)) n *= s;
  return n;
}

double cubic(int64_t m, int64_t n) {
  return static_cast<double>(m * n) * static_cast<double>(std::min(m, n));
}

// X with 1 on the diagonal: for divisors whose diagonal entries are not used.
Tensor with_unit_diagonal(const Tensor& x) {
  return x.masked_fill(eye(x.size(-1), x.dtype()).to(kBool), 1);
}

// Cholesky

void infer_cholesky(Call& c) {
  check_defined(c, 0, "self");
  check_matrices(c, c.in(0), "self", true);
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_cholesky(Call& c) {
  const NoGradGuard off;
  const bool upper = c.flag(0);
  const Tensor a = contiguous_values(upper ? transposed(c.in(0)) : c.in(0));
  const Tensor l = upper ? empty(a.sizes(), a.dtype()) : c.out();
  const int64_t n = a.size(-1), count = n == 0 ? 0 : matrix_count(a);
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, cubic(n, n) / 3, [&](int64_t i) {
      const int64_t order = kernels::cholesky(n, a.raw<T>() + i * n * n, l.raw<T>() + i * n * n);
      PELLUCID_CHECK(order == 0, LinAlgError,
                     "{}: matrix {} of {} is not positive definite: its leading minor of order {} "
                     "is not positive (self {}).",
                     c.name(), i, count, order, a.sizes());
    });
  });
  if (upper) c.out().copy_(transposed(l));
}

// With P = L^T gL: gA = 1/2 L^-T (tril(P, -1) + tril(P, -1)^T + diag(P)) L^-1, symmetric as A is.
Tensors cholesky_vjp(const Vjp& v) {
  const bool upper = v.flag(0);
  const Tensor l = upper ? transposed(v.out()) : v.out(), g = upper ? transposed(v.grad) : v.grad;
  const Tensor p = transposed(l).matmul(g).tril();
  const Tensor below = p.tril(-1), both = below + transposed(p);
  const Tensor half = linalg_solve(transposed(l), both * 0.5, true);
  return {linalg_solve(l, half, false)};
}

// QR

enum class QrMode { Reduced, Complete, OnlyR };

QrMode qr_mode(const Call& c) {
  const std::string_view mode = c.text(0);
  PELLUCID_CHECK(mode == "reduced" || mode == "complete" || mode == "r", ValueError,
                 "linalg_qr: mode must be 'reduced', 'complete' or 'r', found '{}'.", mode);
  return mode == "reduced"    ? QrMode::Reduced
         : mode == "complete" ? QrMode::Complete
                              : QrMode::OnlyR;
}

void infer_qr(Call& c) {
  check_defined(c, 0, "A");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "A", false);
  const QrMode mode = qr_mode(c);
  const int64_t m = a.size(-2), n = a.size(-1),
                columns = mode == QrMode::Complete ? m : std::min(m, n);
  if (mode == QrMode::OnlyR)
    c.make_output({0}, a.dtype());
  else
    c.make_output(with_last(batch_sizes(a), {m, columns}), a.dtype());
  c.make_output(with_last(batch_sizes(a), {columns, n}), a.dtype());
}

void run_qr(Call& c) {
  const Tensor a = contiguous_values(c.in(0));
  const Tensor &q = c.out(0), &r = c.out(1);
  const bool with_q = qr_mode(c) != QrMode::OnlyR;
  const int64_t m = a.size(-2), n = a.size(-1), columns = r.size(-2);
  if (m == 0) return;
  by_type(a, [&]<class T>(T) {
    for_each_matrix(matrix_count(a), 2 * cubic(m, n), [&](int64_t i) {
      kernels::qr(m, n, columns, a.raw<T>() + i * m * n,
                  with_q ? q.raw<T>() + i * m * columns : nullptr, r.raw<T>() + i * columns * n);
    });
  });
}

// A [m, n] with m >= n: gA = (gQ + Q (X + X^T with half the diagonal)) R^-T, X = triu(gR R^T - Q^T
// gQ).
Tensor tall_qr_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const Tensor x = (gr.matmul(transposed(r)) - transposed(q).matmul(gq)).triu();
  const Tensor symmetric = x + transposed(x.triu(1));
  return linalg_solve(transposed(r), gq + q.matmul(symmetric), false);
}

// [X | Y] with square X = Q R1 and R2 = Q^T Y: the part of Y first, then X's own.
Tensor wide_qr_gradient(const Tensor& a, const Tensor& q, const Tensor& r, const Tensor& gq,
                        const Tensor& gr) {
  const int64_t m = a.size(-2), rest = a.size(-1) - m;
  const Tensor y = a.narrow(-1, m, rest), gr2 = gr.narrow(-1, m, rest);
  const Tensor of_x =
      tall_qr_gradient(q, r.narrow(-1, 0, m), gq + y.matmul(transposed(gr2)), gr.narrow(-1, 0, m));
  return cat({of_x, q.matmul(gr2)}, -1);
}

Tensors qr_vjp(const Vjp& v) {
  const std::string_view mode = v.text(0);
  const Tensor &a = v.in(0), &q = v.out(0), &r = v.out(1);
  PELLUCID_CHECK(
      mode != "r", AutogradError,
      "linalg_qr: mode 'r' does not compute Q, which the gradient needs. Use 'reduced'.");
  PELLUCID_CHECK(mode == "reduced" || a.size(-2) <= a.size(-1), AutogradError,
                 "linalg_qr: the gradient of mode 'complete' is not defined for more rows than "
                 "columns (A {}). Use 'reduced'.",
                 a.sizes());
  const Tensor gq = v.grad_or_zeros(0), gr = v.grad_or_zeros(1);
  return {a.size(-2) >= a.size(-1) ? tall_qr_gradient(q, r, gq, gr)
                                   : wide_qr_gradient(a, q, r, gq, gr)};
}

// Singular values

void infer_svd(Call& c) {
  check_defined(c, 0, "A");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "A", false);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const bool full = c.flag(0);
  c.make_output(with_last(batch_sizes(a), {m, full ? m : k}), a.dtype());
  c.make_output(with_last(batch_sizes(a), {k}), a.dtype());
  c.make_output(with_last(batch_sizes(a), {full ? n : k, n}), a.dtype());
}

void run_svd(Call& c) {
  const NoGradGuard off;
  const Tensor a = contiguous_values(c.in(0));
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), count = matrix_count(a);
  const Tensor &u = c.out(0), &s = c.out(1), &vt = c.out(2);
  if (k == 0) {  // nothing to decompose: any orthonormal bases
    if (u.numel() > 0) u.copy_(eye(m, a.dtype()).expand(u.sizes()));
    if (vt.numel() > 0) vt.copy_(eye(n, a.dtype()).expand(vt.sizes()));
    return;
  }
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, 20 * cubic(m, n), [&](int64_t i) {
      PELLUCID_CHECK(
          kernels::svd(m, n, c.flag(0), a.raw<T>() + i * m * n, u.raw<T>() + i * m * u.size(-1),
                       s.raw<T>() + i * k, vt.raw<T>() + i * vt.size(-2) * n),
          LinAlgError, "{}: matrix {} of {} has entries that are not finite (A {}).", c.name(), i,
          count, a.sizes());
    });
  });
}

// gA = U [ skew(U^T gU) / E S + S skew(V^T gV) / E + diag(gS) ] V^T, E_ij = s_j^2 - s_i^2, and what
// gU and gV have outside the spaces of U and V.
Tensors svd_gradient(const Vjp& v, size_t at_u, size_t at_s, size_t at_vt) {
  const Tensor& s = v.out(at_s);
  const int64_t k = s.size(-1), m = v.in_sizes(0)[v.in_sizes(0).size() - 2],
                n = v.in_sizes(0).back();
  const Tensor u = v.out(at_u).narrow(-1, 0, k), vt = v.out(at_vt).narrow(-2, 0, k);
  const Tensor& gs = v.grads[at_s];
  const auto skew = [](const Tensor& x) { return x - transposed(x); };
  const Tensor row = s.unsqueeze(-2), column = s.unsqueeze(-1);
  Tensor inner, outer;
  const auto sum = [](const Tensor& a, const Tensor& b) { return a.defined() ? a + b : b; };
  const auto differences = [&] { return with_unit_diagonal((row - column) * (row + column)); };
  if (v.grads[at_u].defined()) {
    const Tensor gu = v.grads[at_u].narrow(-1, 0, k), inside = transposed(u).matmul(gu);
    inner = sum(inner, skew(inside) / differences() * row);
    if (m > k) outer = sum(outer, ((gu - u.matmul(inside)) / row).matmul(vt));
  }
  if (v.grads[at_vt].defined()) {
    const Tensor gvt = v.grads[at_vt].narrow(-2, 0, k), inside = vt.matmul(transposed(gvt));
    inner = sum(inner, column * (skew(inside) / differences()));
    if (n > k) outer = sum(outer, u.matmul((gvt - transposed(inside).matmul(vt)) / column));
  }
  if (gs.defined()) inner = sum(inner, gs.diag_embed());
  return {sum(outer, u.matmul(inner).matmul(vt))};
}

Tensors svd_vjp(const Vjp& v) { return svd_gradient(v, 0, 1, 2); }

// Singular values alone; the vectors, which the gradient needs, are hidden outputs.

void infer_svdvals(Call& c) {
  check_defined(c, 0, "A");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "A", false);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  c.make_output(with_last(batch_sizes(a), {k}), a.dtype());
  if (!c.wants(1)) return c.skip_output(), c.skip_output();
  c.make_output(with_last(batch_sizes(a), {m, k}), a.dtype());
  c.make_output(with_last(batch_sizes(a), {k, n}), a.dtype());
}

void run_svdvals(Call& c) {
  const Tensor a = contiguous_values(c.in(0));
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), count = matrix_count(a);
  const Tensor &s = c.out(0), &u = c.out(1), &vt = c.out(2);
  if (k == 0) return;
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, 4 * cubic(m, n), [&](int64_t i) {
      PELLUCID_CHECK(
          kernels::svd(m, n, false, a.raw<T>() + i * m * n,
                       u.defined() ? u.raw<T>() + i * m * k : nullptr, s.raw<T>() + i * k,
                       u.defined() ? vt.raw<T>() + i * k * n : nullptr),
          LinAlgError, "{}: matrix {} of {} has entries that are not finite (A {}).", c.name(), i,
          count, a.sizes());
    });
  });
}

// Symmetric eigenvalues

void infer_eigvalsh(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "self", true);
  PELLUCID_CHECK(c.text(0) == "L" || c.text(0) == "U", ValueError,
                 "linalg_eigvalsh: UPLO must be 'L' or 'U', found '{}'.", c.text(0));
  c.make_output(with_last(batch_sizes(a), {a.size(-1)}), a.dtype());
  if (!c.wants(1)) return c.skip_output();
  c.make_output(a.sizes(), a.dtype());
}

void infer_eigh(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "self", true);
  PELLUCID_CHECK(c.text(0) == "L" || c.text(0) == "U", ValueError,
                 "linalg_eigh: UPLO must be 'L' or 'U', found '{}'.", c.text(0));
  c.make_output(with_last(batch_sizes(a), {a.size(-1)}), a.dtype());
  c.make_output(a.sizes(), a.dtype());
}

void run_eigh(Call& c) {
  const Tensor a = contiguous_values(c.in(0));
  const int64_t n = a.size(-1), count = n == 0 ? 0 : matrix_count(a);
  const bool lower = c.text(0) == "L";
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, 9 * cubic(n, n), [&](int64_t i) {
      PELLUCID_CHECK(kernels::eigh(n, lower, a.raw<T>() + i * n * n, c.out(0).raw<T>() + i * n,
                                   c.out(1).defined() ? c.out(1).raw<T>() + i * n * n : nullptr),
                     LinAlgError,
                     "{}: the iteration for matrix {} of {} did not converge; has it entries that "
                     "are not finite? (self {})",
                     c.name(), i, count, a.sizes());
    });
  });
}

// gA = V (diag(gL) + (X - X^T) / 2 / E) V^T with X = V^T gV and E_ij = l_j - l_i: symmetric as A
// is.
Tensors eigh_vjp(const Vjp& v) {
  const Tensor &l = v.out(0), &vectors = v.out(1);
  Tensor inner;
  if (v.grads[1].defined()) {
    const Tensor x = transposed(vectors).matmul(v.grads[1]);
    inner = (x - transposed(x)) * 0.5 / with_unit_diagonal(l.unsqueeze(-2) - l.unsqueeze(-1));
  }
  if (v.grads[0].defined())
    inner = inner.defined() ? inner + v.grads[0].diag_embed() : v.grads[0].diag_embed();
  return {vectors.matmul(inner).matmul(transposed(vectors))};
}

Tensor sample_symmetric(IntArrayRef sizes) {
  const Tensor a = sample_randn(sizes);
  return a + transposed(a);
}

Tensor sample_positive(IntArrayRef sizes) {
  const Tensor a = sample_regular(sizes);
  return a.matmul(transposed(a));
}

}  // namespace

// The gradients of cholesky and eigh are symmetric, but a test that moves one entry at a time sees
// only the triangle that is read: tests/ops/decompose.cpp moves both.
extern constinit const OpDef linalg_cholesky_op = {
    .schema = "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    .doc =
        "The triangular L with L L^T = self (U with U^T U = self if upper); one triangle is read.",
    .infer = infer_cholesky,
    .cost = [](const Call& c) { return cubic_cost(c, 1.0 / 3); },
    .kernel = run_cholesky,
    .at_once = true,
    .saved = Saved::output(0),
    .vjp = cholesky_vjp,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_positive({3, 3})});
          s.add_no_grad({sample_positive({2, 4, 4})}, {{"upper", true}});
          s.add_no_grad({sample_randn({0, 0})});
          s.error({-eye(2, kFloat64)}, "not positive definite");
          s.error({sample_randn({2, 3})}, "must be square");
          s.large([] {
            const Tensor a = randn({512, 512});
            return Values{a.matmul(a.t()) + eye(512) * 512};
          });
        },
};

extern constinit const OpDef linalg_qr_op = {
    .schema = "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    .doc =
        "A = Q R with orthonormal columns and an upper triangle; mode 'reduced', 'complete' or "
        "'r'.",
    .infer = infer_qr,
    .cost = [](const Call& c) { return cubic_cost(c, 4); },
    .kernel = run_qr,
    .at_once = true,
    .saved = Saved::InputsAndOutputs,
    .vjp = qr_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.add({sample_randn({2, 4, 2})});
          s.add({sample_randn({2, 4})});
          s.add({sample_randn({2, 4}), "complete"});
          s.add_no_grad({sample_randn({4, 2}), "complete"});
          s.add_no_grad({sample_randn({4, 2}), "r"});
          s.add_no_grad({sample_randn({0, 2})});
          s.error({sample_randn({2, 2}), "full"}, "mode must be");
          s.error({sample_randn({2})}, "at least 2 dimensions");
          s.large([] { return Values{randn({512, 256})}; });
        },
};

extern constinit const OpDef linalg_svd_op = {
    .schema =
        "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor "
        "S, "
        "Tensor Vh)",
    .doc =
        "A = U diag(S) Vh with S descending; driver is PyTorch's for CUDA and has no meaning here.",
    .infer = infer_svd,
    .cost = [](const Call& c) { return cubic_cost(c, 20); },
    .kernel = run_svd,
    .at_once = true,
    .saved = Saved{0, Saved::kAll, 0},
    .vjp = svd_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3}), false});
          s.add({sample_randn({4, 2}), false});
          s.add({sample_randn({2, 2, 4}), false});
          s.add_no_grad({sample_randn({3, 2})});
          s.add_no_grad({sample_randn({2, 3})});
          s.add_no_grad({sample_randn({0, 2})});
          s.error({sample_randn({2})}, "at least 2 dimensions");
          s.error({full({2, 2}, NAN, kFloat64)}, "not finite");
          s.large([] { return Values{randn({128, 128}), false}; });
        },
};

extern constinit const OpDef linalg_svdvals_op = {
    .schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> (Tensor S, Tensor _U, Tensor _Vh)",
    .doc = "The singular values of matrices, descending. No vectors unless a gradient needs them.",
    .infer = infer_svdvals,
    .cost = [](const Call& c) { return cubic_cost(c, c.wants(1) ? 20 : 4); },
    .kernel = run_svdvals,
    .at_once = true,
    .saved = Saved{0, Saved::kAll, 0},
    .vjp = [](const Vjp& v) -> Tensors { return svd_gradient(v, 1, 0, 2); },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.add({sample_randn({4, 2})});
          s.add({sample_randn({2, 2, 4})});
          s.add_no_grad({sample_randn({0, 2})});
          s.error({sample_randn({2})}, "at least 2 dimensions");
          s.error({full({2, 2}, NAN, kFloat64)}, "not finite");
          s.large([] { return Values{randn({128, 128})}; });
        },
};

extern constinit const OpDef linalg_eigvalsh_op = {
    .schema = "linalg_eigvalsh(Tensor self, str UPLO='L') -> (Tensor L, Tensor _V)",
    .doc =
        "The eigenvalues of symmetric matrices, ascending; one triangle is read. No vectors unless "
        "a gradient needs them.",
    .infer = infer_eigvalsh,
    .cost = [](const Call& c) { return cubic_cost(c, c.wants(1) ? 9 : 4.0 / 3); },
    .kernel = run_eigh,
    .at_once = true,
    .saved = Saved{0, Saved::kAll, 0},
    .vjp = eigh_vjp,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_symmetric({3, 3})});
          s.add_no_grad({sample_symmetric({2, 4, 4}), "U"});
          s.add_no_grad({sample_randn({0, 0})});
          s.error({sample_randn({2, 3})}, "must be square");
          s.error({sample_symmetric({2, 2}), "X"}, "UPLO must be");
          s.large([] {
            const Tensor a = randn({128, 128});
            return Values{a + a.t()};
          });
        },
};

extern constinit const OpDef linalg_eigh_op = {
    .schema = "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    .doc =
        "Eigenvalues (ascending) and eigenvectors (columns) of symmetric matrices; one triangle is "
        "read.",
    .infer = infer_eigh,
    .cost = [](const Call& c) { return cubic_cost(c, 9); },
    .kernel = run_eigh,
    .at_once = true,
    .saved = Saved{0, Saved::kAll, 0},
    .vjp = eigh_vjp,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_symmetric({3, 3})});
          s.add_no_grad({sample_symmetric({2, 4, 4}), "U"});
          s.add_no_grad({sample_randn({0, 0})});
          s.error({sample_randn({2, 3})}, "must be square");
          s.error({sample_symmetric({2, 2}), "X"}, "UPLO must be");
          s.large([] {
            const Tensor a = randn({128, 128});
            return Values{a + a.t()};
          });
        },
};

}  // namespace pellucid
