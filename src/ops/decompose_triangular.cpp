// Systems with a triangular matrix, and those whose Cholesky factor is known.
#include "kernels/triangular.h"
#include "ops/decompose.h"

namespace pellucid {
namespace {

using kernels::Triangle;

// Attributes of linalg_solve_triangular: upper, left, unitriangular.
struct Sizes {
  Dims a, b;  // after broadcasting the batches
};

Sizes sizes_of(const Call& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const bool left = c.flag(1);
  PELLUCID_CHECK(b.dim() >= 2, ShapeError, "{}: B must have at least 2 dimensions, found sizes {}.",
                 c.name(), b.sizes());
  PELLUCID_CHECK(b.size(left ? -2 : -1) == a.size(-1), ShapeError,
                 "{}: A has {} {} but B has {} (A {}, B {}).", c.name(), a.size(-1),
                 left ? "rows" : "columns", b.size(left ? -2 : -1), a.sizes(), b.sizes());
  Sizes s{broadcast_sizes(c.name(), batch_sizes(a), batch_sizes(b)), {}};
  s.b = s.a;
  for (const int64_t d : {-2, -1}) s.a.push_back(a.size(d)), s.b.push_back(b.size(d));
  return s;
}

void infer_solve_triangular(Call& c) {
  check_defined(c, 0, "A");
  check_defined(c, 1, "B");
  check_matrices(c, c.in(0), "A", true);
  check_same_dtype(c, c.in(0), c.in(1));
  c.make_output(sizes_of(c).b, c.in(0).dtype());
}

void run_solve_triangular(Call& c) {
  const NoGradGuard off;
  const Sizes s = sizes_of(c);
  const bool left = c.flag(1), unit = c.flag(2), upper = c.flag(0) == left;
  // X A = B is A^T X^T = B^T.
  const auto turned = [&](const Tensor& t) { return left ? t : transposed(t); };
  const Tensor a = contiguous_values(turned(c.in(0).expand(s.a)));
  const Tensor x = left ? c.out() : empty(turned(c.out()).sizes(), a.dtype());
  x.copy_(turned(c.in(1).expand(s.b)));
  const int64_t n = x.size(-2), k = x.size(-1), count = n * k == 0 ? 0 : x.numel() / (n * k);
  const Triangle which = upper ? (unit ? Triangle::UpperUnit : Triangle::Upper)
                               : (unit ? Triangle::LowerUnit : Triangle::Lower);
  by_type(a, [&]<class T>(T) {
    for_each_matrix(count, static_cast<double>(n * n * k), [&](int64_t i) {
      kernels::solve_triangular(which, n, k, a.raw<T>() + i * n * n, n, x.raw<T>() + i * n * k, k);
    });
  });
  if (!left) c.out().copy_(transposed(x));
}

Tensors solve_triangular_vjp(const Vjp& v) {
  const bool upper = v.flag(0), left = v.flag(1), unit = v.flag(2);
  const Tensor &a = v.in(0), &x = v.out();
  const Tensor gb = linalg_solve_triangular(transposed(a), v.grad, !upper, left, unit);
  Tensors out(2);
  if (v.needs(0)) {
    const Tensor ga = left ? -gb.matmul(transposed(x)) : -transposed(x).matmul(gb);
    out[0] = upper ? ga.triu(unit ? 1 : 0) : ga.tril(unit ? -1 : 0);
  }
  if (v.needs(1)) out[1] = gb;
  return out;
}

// The two systems of L L^T x = b, where `factor` is L, or U = L^T if upper.
Tensor solve_both(const Tensor& factor, const Tensor& b, bool upper) {
  const Tensor lower = upper ? transposed(factor) : factor;
  return linalg_solve_triangular(transposed(lower), linalg_solve_triangular(lower, b, false), true);
}

void check_factor(const Call& c, size_t input, std::string_view argument) {
  check_defined(c, input, argument);
  check_matrices(c, c.in(input), argument, true);
}

}  // namespace

extern constinit const OpDef linalg_solve_triangular_op = {
    .schema =
        "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
        "unitriangular=False) -> Tensor",
    .doc =
        "X with self X = B (left) or X self = B, where only one triangle of self is read, without "
        "its diagonal if that is of ones.",
    .infer = infer_solve_triangular,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.out().numel()) * static_cast<double>(c.in(0).size(-1)),
                      moved_bytes(c)};
        },
    .kernel = run_solve_triangular,
    .at_once = true,
    .saved = Saved::input(0) | Saved::output(0),
    .vjp = solve_triangular_vjp,
    .samples =
        [](Samples& s) {
          const auto add = [&](IntArrayRef a, IntArrayRef b, bool upper, bool left, bool unit) {
            s.add({sample_regular(a), sample_randn(b)},
                  {{"upper", upper}, {"left", left}, {"unitriangular", unit}});
          };
          add({3, 3}, {3, 2}, true, true, false);
          add({3, 3}, {3, 2}, false, true, true);
          add({2, 3, 3}, {3, 2}, true, true, true);
          add({2, 2}, {2, 3, 2}, false, false, false);
          add({2, 2}, {3, 2}, true, false, true);
          add({0, 0}, {0, 2}, true, true, false);
          s.error({sample_regular({3, 3}), sample_randn({2, 2})}, "A has 3 rows but B has 2",
                  {{"upper", true}});
          s.error({sample_regular({3, 3}), sample_randn({3})}, "at least 2 dimensions",
                  {{"upper", true}});
          s.error({sample_randn({2, 3}), sample_randn({3, 1})}, "must be square",
                  {{"upper", true}});
          s.large([] { return Values{randn({512, 512}), randn({512, 64})}; }, {{"upper", true}});
        },
};

extern constinit const OpDef cholesky_op = {
    .schema = "cholesky(Tensor self, bool upper=False) -> Tensor",
    .doc = "linalg_cholesky.",
    .compose = [](const Call& c) -> Tensors { return {linalg_cholesky(c.in(0), c.flag(0))}; },
    .samples =
        [](Samples& s) {
          const Tensor a = sample_regular({3, 3});
          s.add_no_grad({a.matmul(a.t())});
          s.add_no_grad({a.matmul(a.t()), true});
          s.error({-eye(2, kFloat64)}, "not positive definite");
        },
};

extern constinit const OpDef cholesky_solve_op = {
    .schema = "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    .doc = "X with (L L^T) X = self for a lower factor L = input2, or an upper one L^T.",
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_factor(c, 1, "input2");
      return {solve_both(c.in(1), c.in(0), c.flag(0))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2}), sample_regular({3, 3}).tril()});
          s.add({sample_randn({2, 3, 1}), sample_regular({3, 3}).triu(), true});
          s.error({sample_randn({3, 2}), sample_randn({3, 2})}, "must be square");
          s.error({sample_randn({2, 2}), sample_regular({3, 3})}, "A has 3 rows but B has 2");
        },
};

extern constinit const OpDef cholesky_inverse_op = {
    .schema = "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    .doc = "The inverse of L L^T for a lower factor L = self, or an upper one L^T.",
    .compose = [](const Call& c) -> Tensors {
      check_factor(c, 0, "self");
      return {solve_both(c.in(0), eye(c.in(0).size(-1), c.in(0).dtype()), c.flag(0))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_regular({3, 3}).tril()});
          s.add({sample_regular({2, 3, 3}).triu(), true});
          s.error({sample_randn({3, 2})}, "must be square");
        },
};

}  // namespace pellucid
