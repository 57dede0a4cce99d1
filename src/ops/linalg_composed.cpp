// Functions of matrices that are made of decompositions and products: logarithms of determinants,
// pseudo-inverses, ranks, exponentials, chains of products, and PyTorch's old names.
#include <cmath>
#include <limits>

#include "ops/decompose.h"

namespace pellucid {
namespace {

// The sign and the logarithm of the size of det(A), from a QR decomposition.
Tensors sign_and_log(const Call& c) {
  check_defined(c, 0, "A");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "A", true);
  const auto [q, r] = linalg_qr(a);
  const Tensor diagonal = r.diagonal(0, -2, -1);
  Tensor sign;
  {
    const NoGradGuard off;
    sign = linalg_det(q).round().mul(diagonal.sign().prod(-1));
  }
  return {sign, diagonal.abs().log().sum({-1})};
}

// A with its upper triangle taken from the lower one, which is all that is read of a symmetric
// matrix.
Tensor symmetric(const Call& c, const Tensor& a) {
  check_matrices(c, a, "A", true);
  return a.tril() + transposed(a.tril(-1));
}

std::optional<double> number_if(const Call& c, size_t i) {
  return c.has_attr(i) ? std::optional(c.number(i)) : std::nullopt;
}

// Below which a singular value counts as 0: max(atol, rtol * the greatest).
Tensor threshold_of(const Tensor& s, const Tensor& a, std::optional<double> atol,
                    std::optional<double> rtol) {
  const double eps = a.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  const auto most = static_cast<double>(std::max(a.size(-2), a.size(-1)));
  const double relative = rtol ? *rtol : atol && *atol > 0 ? 0.0 : most * eps;
  return s.amax({-1}, true).mul(relative).clamp_min(atol.value_or(0));
}

Tensor pseudo_inverse(const Call& c, const Tensor& given, std::optional<double> atol,
                      std::optional<double> rtol, bool hermitian) {
  check_matrices(c, given, "A", hermitian);
  if (given.numel() == 0) return zeros_like(transposed(given));
  const Tensor a = hermitian ? symmetric(c, given) : given;
  const auto [u, s, vh] = linalg_svd(a, false);
  const Tensor drop = s.le(threshold_of(s.detach(), a, atol, rtol));
  const Tensor inverse = s.masked_fill(drop, 1).reciprocal().masked_fill(drop, 0);
  return (transposed(vh) * inverse.unsqueeze(-2)).matmul(transposed(u));
}

Tensor rank_of(const Tensor& a, std::optional<double> atol, std::optional<double> rtol) {
  const NoGradGuard off;
  const Tensor s = linalg_svdvals(a);
  if (s.size(-1) == 0) return zeros(batch_sizes(a), kInt64);
  return s.gt(threshold_of(s, a, atol, rtol)).sum({-1});
}

Tensors compose_lstsq(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "b");
  const Tensor &a = c.in(0), &b = c.in(1);
  check_matrices(c, a, "self", false);
  check_same_dtype(c, a, b);
  if (c.has_attr(1)) {
    const std::string_view driver = c.text(1);
    PELLUCID_CHECK(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
                   ValueError,
                   "linalg_lstsq: driver must be gels, gelsy, gelsd or gelss, found '{}'.", driver);
  }
  PELLUCID_CHECK(b.dim() == a.dim() || b.dim() + 1 == a.dim(), ShapeError,
                 "linalg_lstsq: b must have as many dimensions as self or one less, found {} and "
                 "{}.",
                 b.dim(), a.dim());
  const bool vector = b.dim() + 1 == a.dim();
  const Tensor right = vector ? b.unsqueeze(-1) : b;
  PELLUCID_CHECK(right.size(-2) == a.size(-2), ShapeError,
                 "linalg_lstsq: self has {} rows but b has {} (self {}, b {}).", a.size(-2),
                 right.size(-2), a.sizes(), b.sizes());
  const Tensor solution = pseudo_inverse(c, a, std::nullopt, number_if(c, 0), false).matmul(right);
  Tensor rank = rank_of(a, std::nullopt, number_if(c, 0)), residuals = empty({0}, a.dtype());
  // As PyTorch has it: its default driver, gelsy, gives no residuals, and gels no ranks.
  const bool wanted = c.has_attr(1) && c.text(1) != "gelsy";
  if (wanted && a.size(-2) > a.size(-1) && rank.eq(a.size(-1)).all().item<bool>())
    residuals = (a.matmul(solution) - right).square().sum({-2});
  if (c.has_attr(1) && c.text(1) == "gels") rank = empty({0}, kInt64);
  return {vector ? solution.squeeze(-1) : solution, residuals, rank, empty({0}, a.dtype())};
}

// A power series of A / 2^k, squared k times.
Tensor compose_matrix_exp(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& a = c.in(0);
  check_matrices(c, a, "self", true);
  if (a.numel() == 0) return a.clone();
  const double size = linalg_matrix_norm(a.detach(), 1).max().item<double>();
  if (!std::isfinite(size)) return a * std::numeric_limits<double>::quiet_NaN();
  const int halvings = size > 0.5 ? static_cast<int>(std::ceil(std::log2(size / 0.5))) : 0;
  const Tensor x = a * std::ldexp(1.0, -halvings);
  Tensor term = eye(a.size(-1), a.dtype()).expand(a.sizes()), total = term;
  for (int k = 1; k <= 18; ++k) {  // 0.5^18 / 18! is below float64's last digit
    term = term.matmul(x) / k;
    total = total + term;
  }
  for (int k = 0; k < halvings; ++k) total = total.matmul(total);
  return total;
}

// The cheapest order of the products of a chain, by dynamic programming over its sizes.
class Chain {
 public:
  explicit Chain(Tensors matrices) : m_(std::move(matrices)), n_(m_.size()), best_(n_ * n_) {
    for (size_t length = 2; length <= n_; ++length)
      for (size_t i = 0; i + length <= n_; ++i) choose(i, i + length - 1);
  }
  Tensor product() const { return product(0, n_ - 1); }

 private:
  struct Best {
    double cost = 0;
    size_t split = 0;
  };
  void choose(size_t i, size_t j) {
    Best& best = best_[i * n_ + j];
    best.cost = std::numeric_limits<double>::infinity();
    for (size_t k = i; k < j; ++k) {
      const double cost = best_[i * n_ + k].cost + best_[(k + 1) * n_ + j].cost +
                          static_cast<double>(m_[i].size(0)) * static_cast<double>(m_[k].size(1)) *
                              static_cast<double>(m_[j].size(1));
      if (cost < best.cost) best = {cost, k};
    }
  }
  Tensor product(size_t i, size_t j) const {
    if (i == j) return m_[i];
    const size_t k = best_[i * n_ + j].split;
    return product(i, k).mm(product(k + 1, j));
  }
  Tensors m_;
  size_t n_;
  std::vector<Best> best_;
};

Tensor chain_product(const Call& c, bool vectors_too) {
  Tensors matrices;
  for (size_t i = 0; i < c.input_count(); ++i) {
    check_defined(c, i, "matrices");
    matrices.push_back(c.in(i));
  }
  const size_t n = matrices.size();
  PELLUCID_CHECK(n >= (vectors_too ? 2u : 1u), ValueError,
                 "{}: at least {} matrices are needed, found {}.", c.name(), vectors_too ? 2 : 1,
                 n);
  const bool row = vectors_too && matrices[0].dim() == 1;
  const bool column = vectors_too && matrices[n - 1].dim() == 1;
  if (row) matrices[0] = matrices[0].unsqueeze(0);
  if (column) matrices[n - 1] = matrices[n - 1].unsqueeze(-1);
  for (size_t i = 0; i < n; ++i) {
    check_dim(c, matrices[i], 2, "each matrix");
    PELLUCID_CHECK(i == 0 || matrices[i - 1].size(1) == matrices[i].size(0), ShapeError,
                   "{}: matrix {} has {} columns but the next one has {} rows.", c.name(), i - 1,
                   matrices[i - 1].size(1), matrices[i].size(0));
  }
  Tensor result = Chain(matrices).product();
  if (row) result = result.squeeze(0);
  return column ? result.squeeze(-1) : result;
}

void determinant_samples(Samples& s) {
  s.add({sample_regular({3, 3})});
  s.add({sample_regular({2, 2, 2})});
  s.error({sample_randn({2, 3})}, "must be square");
}

}  // namespace

extern constinit const OpDef linalg_slogdet_op = {
    .schema = "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    .doc = "The sign and the logarithm of the size of the determinant.",
    .compose = sign_and_log,
    .samples = determinant_samples,
};

extern constinit const OpDef slogdet_op = {
    .schema = "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    .doc = "linalg_slogdet.",
    .compose = sign_and_log,
    .samples = determinant_samples,
};

extern constinit const OpDef logdet_op = {
    .schema = "logdet(Tensor self) -> Tensor",
    .doc = "The logarithm of the determinant; NaN where that is negative.",
    .compose = [](const Call& c) -> Tensors {
      const Tensors both = sign_and_log(c);
      return {both[1].masked_fill(both[0].lt(0), std::numeric_limits<double>::quiet_NaN())};
    },
    .samples = determinant_samples,
};

extern constinit const OpDef matrix_exp_op = {
    .schema = "matrix_exp|linalg_matrix_exp(Tensor self) -> Tensor",
    .doc = "The exponential of matrices.",
    .compose = [](const Call& c) -> Tensors { return {compose_matrix_exp(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 3}) * 0.3});
          s.add({sample_randn({2, 2, 2})});
          s.add({sample_randn({0, 0})});
          s.error({sample_randn({2, 3})}, "must be square");
        },
};

extern constinit const OpDef linalg_pinv_op = {
    .schema =
        "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
        "hermitian=False) -> Tensor",
    .doc = "The pseudo-inverse; singular values up to max(atol, rtol * the greatest) count as 0.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {pseudo_inverse(c, c.in(0), number_if(c, 0), number_if(c, 1), c.flag(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2})});
          s.add({sample_regular({2, 3, 3})}, {{"atol", 0.1}});
          s.add_no_grad({sample_randn({3, 3})}, {{"hermitian", true}, {"rtol", 1e-3}});
          s.error({sample_randn({2, 3})}, "must be square", {{"hermitian", true}});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef pinverse_op = {
    .schema = "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
    .doc = "The pseudo-inverse; singular values up to rcond times the greatest count as 0.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {pseudo_inverse(c, c.in(0), std::nullopt, c.number(0), false)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2})});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef linalg_matrix_rank_op = {
    .schema =
        "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
        "bool hermitian=False) -> Tensor",
    .doc = "How many singular values are above max(atol, rtol * the greatest).",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_matrices(c, c.in(0), "A", c.flag(2));
      const Tensor a = c.flag(2) ? symmetric(c, c.in(0)) : c.in(0);
      return {rank_of(a, number_if(c, 0), number_if(c, 1))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 2})});
          s.add_no_grad({ones({2, 3, 3}, kFloat64)});
          s.add_no_grad({sample_randn({3, 3})}, {{"hermitian", true}, {"atol", 0.5}});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef linalg_cond_op = {
    .schema = "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
    .doc = "The p-norm of matrices times that of their inverses; 2 unless given.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& a = c.in(0);
      check_matrices(c, a, "self", false);
      const double p = c.has_attr(0) ? c.number(0) : 2.0;
      if (p == 2 || p == -2) {
        const Tensor s = linalg_svdvals(a);
        const Tensor most = s.select(-1, 0), least = s.select(-1, -1);
        return {p == 2 ? most / least : least / most};
      }
      check_matrices(c, a, "self", true);
      return {linalg_matrix_norm(a, p) * linalg_matrix_norm(linalg_inv(a), p)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.add({sample_regular({2, 3, 3}), 1});
          s.add({sample_randn({3, 2}), -2});
          s.error({sample_randn({2, 3}), 1}, "must be square");
        },
};

extern constinit const OpDef linalg_cond_str_op = {
    .schema = "linalg_cond.p_str(Tensor self, str p) -> Tensor",
    .doc = "The 'fro' or 'nuc' norm of matrices times that of their inverses.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& a = c.in(0);
      check_matrices(c, a, "self", true);
      return {linalg_matrix_norm(a, c.text(0)) * linalg_matrix_norm(linalg_inv(a), c.text(0))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3}), "fro"});
          s.add({sample_regular({2, 2}), "nuc"});
          s.error({sample_randn({2, 3}), "fro"}, "must be square");
        },
};

extern constinit const OpDef linalg_lstsq_op = {
    .schema =
        "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor "
        "solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    .doc =
        "The X of least |self X - b|, the squared residuals of full-rank systems with more rows "
        "than columns if driver is another one than gelsy, and the ranks; singular_values is "
        "empty.",
    .compose = compose_lstsq,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), sample_randn({4, 3})});
          s.add_no_grad({sample_randn({4, 2}), sample_randn({4, 3})}, {{"driver", "gels"}});
          s.add({sample_regular({2, 2}), sample_randn({2, 1})});
          s.error({sample_randn({4, 2}), sample_randn({3, 2})}, "has 4 rows but b has 3");
          s.error({sample_randn({4, 2}), sample_randn({4, 2})}, "driver must be",
                  {{"driver", "qr"}});
          s.error({sample_randn({2, 4, 2}), sample_randn({4})}, "as many dimensions as self");
        },
};

extern constinit const OpDef linalg_multi_dot_op = {
    .schema = "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    .doc = "The product of matrices in the cheapest order; the first and the last may be vectors.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {chain_product(c, true)}; },
    .samples =
        [](Samples& s) {
          s.add(
              {Value::tensors({sample_randn({2, 3}), sample_randn({3, 4}), sample_randn({4, 2})})});
          s.add({Value::tensors({sample_randn({3}), sample_randn({3, 2}), sample_randn({2})})});
          s.error({Value::tensors({sample_randn({2, 3})})}, "at least 2 matrices");
          s.error({Value::tensors({sample_randn({2, 3}), sample_randn({2, 3})})},
                  "has 3 columns but the next one has 2 rows");
        },
};

extern constinit const OpDef chain_matmul_op = {
    .schema = "chain_matmul(Tensor[] matrices) -> Tensor",
    .doc = "The product of matrices in the cheapest order.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {chain_product(c, false)}; },
    .samples =
        [](Samples& s) {
          s.add(
              {Value::tensors({sample_randn({2, 3}), sample_randn({3, 4}), sample_randn({4, 2})})});
          s.add({Value::tensors({sample_randn({2, 3})})});
          s.error({Value::tensors({sample_randn({3}), sample_randn({3, 2})})}, "2 dimensions");
        },
};

extern constinit const OpDef linalg_vecdot_op = {
    .schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    .doc = "The dot products of vectors along a dim.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "x");
      check_defined(c, 1, "y");
      check_floating(c, c.in(0), "x");
      check_same_dtype(c, c.in(0), c.in(1));
      return {c.in(0).mul(c.in(1)).sum({c.integer(0)})};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({2, 3})});
          s.add({sample_randn({2, 3}), sample_randn({3})}, {{"dim", 0}});
          s.error({sample_ints({3}, 0, 3), sample_ints({3}, 0, 3)}, "must be a floating tensor");
        },
};

extern constinit const OpDef linalg_diagonal_op = {
    .schema =
        "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    .doc = "The diagonals of matrices.",
    .kind = OpKind::View,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "A");
      return {c.in(0).diagonal(c.integer(0), c.integer(1), c.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4})});
          s.add({sample_randn({3, 4})}, {{"offset", 1}});
        },
};

extern constinit const OpDef svd_op = {
    .schema =
        "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    .doc = "self = U diag(S) V^T; zeros for U and V if they are not to be computed.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& a = c.in(0);
      check_matrices(c, a, "self", false);
      if (c.flag(1)) {
        const auto [u, s, vh] = linalg_svd(a, !c.flag(0));
        return {u, s, transposed(vh)};
      }
      Dims left(batch_sizes(a)), right = left;
      for (int i = 0; i < 2; ++i) left.push_back(a.size(-2)), right.push_back(a.size(-1));
      return {zeros(left, a.dtype()), linalg_svdvals(a), zeros(right, a.dtype())};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2})});
          s.add_no_grad({sample_randn({2, 3}), false});
          s.add_no_grad({sample_randn({2, 3}), true, false});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef qr_op = {
    .schema = "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
    .doc = "linalg_qr, reduced or complete.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const auto [q, r] = linalg_qr(c.in(0), c.flag(0) ? "reduced" : "complete");
      return {q, r};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2})});
          s.add_no_grad({sample_randn({4, 2}), false});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

}  // namespace pellucid
