// Running sums, products and extremes along one dim, and the running logsumexp.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/scan.h"
#include "kernels/scan_lines.h"
#include "ops/reduce.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

int64_t scan_dim(const Call& c) {
  check_defined(c, 0, "self");
  return wrap_dim(c.name(), c.integer(0), c.in(0).dim());
}

void infer_scan(Call& c) {
  scan_dim(c);
  const DType t = c.has_attr(1)                        ? c.dtype(1)
                  : is_integral(c.in(0).dtype(), true) ? kInt64
                                                       : c.in(0).dtype();
  c.make_output(c.in(0).sizes(), t);
}

void infer_same(Call& c) {
  scan_dim(c);
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

template <kernels::ScanOp Op, bool Reverse = false> void run_scan(Call& c) {
  const NoGradGuard off;
  // Floats asked for as integers are truncated one by one, so the conversion comes first.
  const Tensor x = is_floating(c.in(0).dtype()) && !is_floating(c.out().dtype())
                       ? c.in(0).to(c.out().dtype())
                       : c.in(0);
  kernels::scan({Op, x.dtype(), x.raw_data(), c.out().dtype(), c.out().raw_data(), x.sizes(),
                 x.raw_strides(), c.out().raw_strides(), scan_dim(c), Reverse});
}

/// Calls line(in, in_step, out, out_step, length, number) for every line along the scanned dim;
/// elements are of type T.
template <class T, class F>
void for_lines(const Tensor& in, const Tensor& out, int64_t dim, const F& line) {
  if (in.numel() == 0) return;
  const kernels::Lines<2> lines(in.sizes(), dim, {in.raw_strides(), out.raw_strides()});
  const int64_t grain = std::max<int64_t>(1, 16384 / lines.length);
  parallel_for(0, lines.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto [from, to] = lines.start(i);
      line(in.raw<T>() + from, lines.step[0], to, lines.step[1], lines.length);
    }
  });
}

// The running extreme and where it was last reached; a NaN wins and stays.
template <bool Greatest> void run_extreme(Call& c) {
  const Tensor &values = c.out(0), &indices = c.out(1);
  visit(c.in(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    using V = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
    for_lines<T>(c.in(0), values, scan_dim(c),
                 [&](const T* x, int64_t step, int64_t at, int64_t out_step, int64_t n) {
                   V best = static_cast<V>(x[0]);
                   int64_t place = 0;
                   for (int64_t i = 0; i < n; ++i) {
                     const V now = static_cast<V>(x[i * step]);
                     if (now != now || (best == best && (Greatest ? now >= best : now <= best))) {
                       best = now;
                       place = i;
                     }
                     values.raw<T>()[at + i * out_step] = T(best);
                     indices.raw<int64_t>()[at + i * out_step] = place;
                   }
                 });
  });
}

void infer_extreme(Call& c) {
  infer_same(c);
  c.make_output(c.in(0).sizes(), kInt64);
}

Tensors extreme_vjp(const Vjp& v) {
  if (!v.grads[0].defined()) return {Tensor()};
  if (v.in_sizes(0).empty()) return {v.grad};
  return {zeros(v.in_sizes(0), v.grad.dtype()).scatter_add_(v.integer(0), v.out(1), v.grad)};
}

// s_i = log(exp(s_{i-1}) + exp(x_i)), in float64 along a line.
void run_logcumsumexp(Call& c) {
  visit(c.in(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                  std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      for_lines<T>(c.in(0), c.out(), scan_dim(c),
                   [&](const T* x, int64_t step, int64_t at, int64_t out_step, int64_t n) {
                     double sum = -INFINITY;
                     for (int64_t i = 0; i < n; ++i) {
                       double now;
                       if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
                         now = x[i * step];
                       else
                         now = static_cast<float>(x[i * step]);
                       const double high = std::max(sum, now), low = std::min(sum, now);
                       if (now != now || sum != sum)
                         sum = NAN;
                       else if (std::isfinite(high))
                         sum = high + std::log1p(std::exp(low - high));
                       else
                         sum = high;
                       if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>)
                         c.out().raw<T>()[at + i * out_step] = static_cast<T>(sum);
                       else
                         c.out().raw<T>()[at + i * out_step] = T(static_cast<float>(sum));
                     }
                   });
    }
  });
}

Tensors logcumsumexp_vjp(const Vjp& v) {
  // dx_i = exp(x_i) * sum over j >= i of g_j exp(-y_j). Shifting by the line's maximum keeps both
  // factors in range for lines that span less than the exponent's range.
  const Tensor& x = v.in(0);
  if (x.dim() == 0 || x.numel() == 0) return {v.grad};
  const int64_t dim = v.integer(0);
  const Tensor shift = x.detach().amax({dim}, true);
  return {x.sub(shift).exp().mul(cumsum_backward(v.grad.mul(shift.sub(v.out()).exp()), dim))};
}

Tensors cumprod_vjp(const Vjp& v) {
  const Tensor& x = v.in(0);
  if (x.dim() == 0 || x.numel() == 0) return {v.grad};
  const int64_t dim = v.integer(0);
  if (count_zeros(x) == 0) return {cumsum_backward(v.grad.mul(v.out()), dim).div(x)};
  // With zeros: grad_k = (product before k) * s_k, where s_k = g_k + x_{k+1} s_{k+1}.
  const int64_t n = x.size(dim);
  Tensors terms(static_cast<size_t>(n));
  Tensor s;
  // What lies behind a zero only matters to the derivatives of this gradient.
  const bool differentiable = autograd::GradMode::is_enabled();
  for (int64_t k = n - 1; k >= 0; --k) {
    const Tensor g = v.grad.select(dim, k);
    if (k == n - 1) {
      s = g;
    } else {
      const Tensor after = x.select(dim, k + 1), rest = after.mul(s);
      s = g.add(differentiable ? rest : rest.masked_fill(after.eq(0), 0));
    }
    terms[static_cast<size_t>(k)] = s;
  }
  const Tensor before =
      cat(Tensors{ones_like(x.narrow(dim, 0, 1)), x.narrow(dim, 0, n - 1).cumprod(dim)}, dim);
  const Tensor grad = before.mul(stack(terms, dim));
  if (differentiable) return {grad};
  // Behind the first zero all is 0, and before it a NaN has the gradient NaN, as in PyTorch.
  const Tensor zero = x.eq(0), behind = zero.cumsum(dim).gt(zero);
  return {grad.masked_fill(x.isnan(), std::nan("")).masked_fill(behind, 0)};
}

void samples_of_scan(Samples& s) {
  s.add({sample_randn({3, 4}, 0.2), 0});
  s.add({sample_randn({3, 4}, 0.2), -1});
  s.add({sample_randn({2, 3, 2}, 0.2).permute({1, 0, 2}), 1});
  s.add({sample_randn({}), 0});
  s.add({sample_randn({0, 3}), 1});
  s.error({sample_randn({3, 4}), 2}, "dim 2 is out of range");
  s.large([] { return Values{randn({4096, 1024}), 1}; });
}

void samples_with_integers(Samples& s) {
  samples_of_scan(s);
  s.add_no_grad({sample_ints({3, 2}, -3, 3), 0});
}

}  // namespace

extern constinit const OpDef cumsum_op = {
    .schema = "cumsum[_](Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The running sum along a dim.",
    .kind = OpKind::Opaque,
    .infer = infer_scan,
    .cost = reduction_cost,
    .kernel = run_scan<kernels::ScanOp::Sum>,
    .vjp = [](const Vjp& v) -> Tensors { return {cumsum_backward(v.grad, v.integer(0))}; },
    .onnx = {"CumSum", 14},
    .samples = samples_with_integers};

extern constinit const OpDef cumsum_backward_op = {
    .schema = "cumsum_backward(Tensor grad_output, int dim) -> Tensor",
    .doc = "The running sum along a dim, from the last element to the first.",
    .kind = OpKind::Opaque,
    .infer = infer_same,
    .cost = reduction_cost,
    .kernel = run_scan<kernels::ScanOp::Sum, true>,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.cumsum(v.integer(0))}; },
    .samples = samples_of_scan};

extern constinit const OpDef cumprod_op = {
    .schema = "cumprod[_](Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The running product along a dim.",
    .kind = OpKind::Opaque,
    .infer = infer_scan,
    .cost = reduction_cost,
    .kernel = run_scan<kernels::ScanOp::Prod>,
    .saved = Saved::InputsAndOutputs,
    .vjp = cumprod_vjp,
    .samples = [](Samples& s) {
      samples_with_integers(s);
      s.add({sample_randn({3, 4}).mul(sample_ints({3, 4}, 0, 2)), 1});  // zeros inside
    }};

extern constinit const OpDef cummax_op = {
    .schema = "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    .doc = "The greatest element so far along a dim, and where it was last found.",
    .kind = OpKind::Opaque,
    .infer = infer_extreme,
    .cost = reduction_cost,
    .kernel = run_extreme<true>,
    .saved = Saved::output(1),
    .vjp = extreme_vjp,
    .samples = samples_with_integers};

extern constinit const OpDef cummin_op = {
    .schema = "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    .doc = "The least element so far along a dim, and where it was last found.",
    .kind = OpKind::Opaque,
    .infer = infer_extreme,
    .cost = reduction_cost,
    .kernel = run_extreme<false>,
    .saved = Saved::output(1),
    .vjp = extreme_vjp,
    .samples = samples_with_integers};

extern constinit const OpDef logcumsumexp_op = {
    .schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
    .doc = "log(cumsum(exp(x))) along a dim, computed without overflow.",
    .kind = OpKind::Opaque,
    .infer =
        [](Call& c) {
          infer_same(c);
          check_floating(c, c.in(0), "self");
        },
    .cost = reduction_cost,
    .kernel = run_logcumsumexp,
    .saved = Saved::InputsAndOutputs,
    .vjp = logcumsumexp_vjp,
    .samples = samples_of_scan};

}  // namespace pellucid
