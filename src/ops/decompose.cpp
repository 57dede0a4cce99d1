// Inverses, determinants and systems of linear equations, by LU decomposition.
#include "ops/decompose.h"

#include <algorithm>

namespace pellucid {
namespace {

void infer_inv(Call& c) {
  check_defined(c, 0, "A");
  check_matrices(c, c.in(0), "A", true);
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_inv(Call& c) {
  const Tensor a = contiguous_values(c.in(0));
  const int64_t n = a.size(-1), count = n == 0 ? 0 : a.numel() / (n * n);
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, 2.0 * static_cast<double>(n * n * n), [&](int64_t i) {
      PELLUCID_CHECK(kernels::inverse(n, a.raw<T>() + i * n * n, c.out().raw<T>() + i * n * n),
                     LinAlgError, "{}: matrix {} of {} is singular and has no inverse (A {}).",
                     c.name(), i, count, a.sizes());
    });
  });
}

Tensors inv_vjp(const Vjp& v) {
  const Tensor t = transposed(v.out());
  return {-t.matmul(v.grad).matmul(t)};
}

void infer_det(Call& c) {
  check_defined(c, 0, "A");
  check_matrices(c, c.in(0), "A", true);
  c.make_output(batch_sizes(c.in(0)), c.in(0).dtype());
}

void run_det(Call& c) {
  const Tensor a = contiguous_values(c.in(0));
  const int64_t n = a.size(-1);
  by_type(a, [&]<class T>(T) {
    for_each_matrix(c.out().numel(), 0.7 * static_cast<double>(n * n * n), [&](int64_t i) {
      c.out().raw<T>()[i] = kernels::determinant(n, a.raw<T>() + i * n * n);
    });
  });
}

// det' is the transposed adjugate: det(A) A^-T, and for a singular A what its singular values say.
Tensors det_vjp(const Vjp& v) {
  const Tensor &a = v.in(0), g = v.grad.unsqueeze(-1).unsqueeze(-1);
  bool regular = true;
  {
    const NoGradGuard off;
    regular = a.size(-1) == 0 || v.out().ne(0).all().item<bool>();
  }
  if (regular) return {g * v.out().unsqueeze(-1).unsqueeze(-1) * transposed(linalg_inv(a))};
  const auto [u, s, vt] = linalg_svd(a, false);
  Dims sizes(s.sizes());
  sizes.insert(sizes.size() - 1, s.size(-1));
  const Tensor others =
      s.unsqueeze(-2).expand(sizes).masked_fill(eye(s.size(-1), s.dtype()).to(kBool), 1).prod(-1);
  const Tensor sign = (linalg_det(u) * linalg_det(vt)).unsqueeze(-1);
  return {g * u.matmul((sign * others).unsqueeze(-1) * vt)};
}

// PyTorch's rule: b is a batch of vectors if it has one dim, or the sizes of A without the last.
bool is_vector(IntArrayRef a, IntArrayRef b) {
  return b.size() == 1 || (b.size() + 1 == a.size() && b == a.slice(0, a.size() - 1));
}

struct System {
  Dims batch;  // of the result
  Dims a, b;   // full sizes after broadcasting; b [..., rows, columns]
  bool vector = false;
};

System system_of(const Call& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const bool left = c.flag(0);
  System s;
  s.vector = is_vector(a.sizes(), b.sizes());
  PELLUCID_CHECK(left || !s.vector, ShapeError,
                 "{}: left = false needs matrices B, found sizes {}.", c.name(), b.sizes());
  Dims matrices(b.sizes());
  if (s.vector) matrices.push_back(1);
  const size_t n = matrices.size();
  PELLUCID_CHECK(n >= 2, ShapeError, "{}: B must have at least 1 dimension, found sizes {}.",
                 c.name(), b.sizes());
  const int64_t rows = matrices[n - 2], columns = matrices[n - 1];
  PELLUCID_CHECK((left ? rows : columns) == a.size(-1), ShapeError,
                 "{}: A has {} {} but B has {} (A {}, B {}).", c.name(), a.size(-1),
                 left ? "rows" : "columns", left ? rows : columns, a.sizes(), b.sizes());
  s.batch = broadcast_sizes(c.name(), batch_sizes(a), matrices.ref().slice(0, n - 2));
  s.a = s.batch, s.b = s.batch;
  s.a.push_back(a.size(-2)), s.a.push_back(a.size(-1));
  s.b.push_back(rows), s.b.push_back(columns);
  return s;
}

void infer_solve(Call& c) {
  check_defined(c, 0, "A");
  check_defined(c, 1, "B");
  check_matrices(c, c.in(0), "A", true);
  check_same_dtype(c, c.in(0), c.in(1));
  const System s = system_of(c);
  Dims sizes = s.b;
  if (s.vector) sizes.pop_back();
  c.make_output(sizes, c.in(0).dtype());
}

void run_solve(Call& c) {
  const NoGradGuard off;
  const System s = system_of(c);
  const bool left = c.flag(0);
  // X A = B is A^T X^T = B^T.
  const auto rows_of = [&](const Tensor& t) { return contiguous_values(left ? t : transposed(t)); };
  const Tensor a = rows_of(c.in(0).expand(s.a));
  const Tensor b = rows_of((s.vector ? c.in(1).unsqueeze(-1) : c.in(1)).expand(s.b));
  const Tensor x = left ? c.out() : empty(b.sizes(), b.dtype());
  const int64_t n = b.size(-2), k = b.size(-1), count = n * k == 0 ? 0 : b.numel() / (n * k);
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, static_cast<double>(n * n * (n + 2 * k)), [&](int64_t i) {
      PELLUCID_CHECK(kernels::solve(n, k, a.raw<T>() + i * n * n, b.raw<T>() + i * n * k,
                                    x.raw<T>() + i * n * k),
                     LinAlgError,
                     "{}: matrix {} of {} is singular; there is no one solution (A {}).", c.name(),
                     i, count, c.in(0).sizes());
    });
  });
  if (!left) c.out().copy_(transposed(x));
}

Tensors solve_vjp(const Vjp& v) {
  const bool left = v.flag(0), vector = is_vector(v.in_sizes(0), v.in_sizes(1));
  const Tensor &a = v.in(0), &x = v.out();
  const auto matrices = [&](const Tensor& t) { return vector ? t.unsqueeze(-1) : t; };
  const Tensor gb = linalg_solve(transposed(a), matrices(v.grad), left);
  Tensors out(2);
  if (v.needs(0)) out[0] = left ? -gb.matmul(transposed(matrices(x))) : -transposed(x).matmul(gb);
  if (v.needs(1)) out[1] = vector ? gb.squeeze(-1) : gb;
  return out;
}

}  // namespace

extern constinit const OpDef linalg_inv_op = {
    .schema = "linalg_inv(Tensor A) -> Tensor",
    .doc = "The inverses of square matrices; LinAlgError if one has none.",
    .infer = infer_inv,
    .cost = [](const Call& c) { return cubic_cost(c, 2); },
    .kernel = run_inv,
    .at_once = true,
    .saved = Saved::output(0),
    .vjp = inv_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.add({sample_regular({2, 2, 4, 4})});
          s.add({sample_randn({0, 2, 2})});
          s.add({sample_randn({2, 0, 0})});
          s.error({sample_randn({2, 3})}, "must be square");
          s.error({zeros({2, 2}, kFloat64)}, "singular");
          s.error({ones({2, 2}, kInt64)}, "must be float32 or float64");
          s.large([] { return Values{randn({512, 512})}; });
        },
};

extern constinit const OpDef inverse_op = {
    .schema = "inverse(Tensor self) -> Tensor",
    .doc = "linalg_inv.",
    .compose = [](const Call& c) -> Tensors { return {linalg_inv(c.in(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.error({sample_randn({3})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef linalg_det_op = {
    .schema = "linalg_det(Tensor A) -> Tensor",
    .doc = "The determinants of square matrices.",
    .infer = infer_det,
    .cost = [](const Call& c) { return cubic_cost(c, 2.0 / 3); },
    .kernel = run_det,
    .saved = Saved::input(0) | Saved::output(0),
    .vjp = det_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.add({sample_regular({2, 3, 2, 2})});
          s.add({sample_randn({2, 0, 0})});
          s.add({sample_randn({1, 1})});
          s.error({sample_randn({2, 3})}, "must be square");
          s.large([] { return Values{randn({512, 512})}; });
        },
};

extern constinit const OpDef det_op = {
    .schema = "det(Tensor self) -> Tensor",
    .doc = "linalg_det.",
    .compose = [](const Call& c) -> Tensors { return {linalg_det(c.in(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3})});
          s.error({sample_randn({2, 3})}, "must be square");
        },
};

extern constinit const OpDef linalg_solve_op = {
    .schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    .doc = "X with A X = B (left) or X A = B; B may be a batch of vectors.",
    .infer = infer_solve,
    .cost = [](const Call& c) { return cubic_cost(c, 2.0 / 3); },
    .kernel = run_solve,
    .at_once = true,
    .saved = Saved::input(0) | Saved::output(0),
    .vjp = solve_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3}), sample_randn({3, 2})});
          s.add({sample_regular({3, 3}), sample_randn({3})});
          s.add({sample_regular({2, 3, 3}), sample_randn({2, 3})});
          s.add({sample_regular({2, 1, 3, 3}), sample_randn({4, 3, 2})});
          s.add({sample_regular({3, 3}), sample_randn({2, 3})}, {{"left", false}});
          s.add({sample_regular({3, 3}), sample_randn({3, 0})});
          s.error({sample_regular({3, 3}), sample_randn({2, 2})}, "A has 3 rows but B has 2");
          s.error({zeros({2, 2}, kFloat64), sample_randn({2})}, "singular");
          s.error({sample_regular({3, 3}), sample_randn({3})}, "needs matrices B",
                  {{"left", false}});
          s.large([] { return Values{randn({512, 512}), randn({512, 64})}; });
        },
};

}  // namespace pellucid
