// Random values whose distribution differs from element to element (poisson, binomial, gamma,
// Dirichlet), and fills with heavy tails (geometric, cauchy). The other fills are in random.cpp.
#include "kernels/random_samplers.h"

#include <limits>

#include "ops/random.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

/// Each element has a block of its own, whatever it rejects.
uint64_t block_for_each(const Call& c) { return static_cast<uint64_t>(c.out().numel()); }

Cost sampler_cost(const Call& c) {
  return {100 * static_cast<double>(c.out().numel()), moved_bytes(c)};
}

/// The values of a parameter in row-major order, computed with in double.
Tensor as_doubles(const Tensor& t) { return contiguous_values(t.detach().to(kFloat64)); }

/// Calls make(data) for the output's elements in row-major order, as doubles, and stores them.
template <class Make> void store(Call& c, const Make& make) {
  const NoGradGuard off;
  const Tensor& out = c.out();
  if (out.numel() == 0) return;
  if (out.dtype() == kFloat64 && out.impl().is_contiguous()) return make(out.raw<double>());
  const Tensor values = empty(out.sizes(), kFloat64);
  make(values.raw<double>());
  out.data().copy_(values);
}

void infer_like_self(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

Tensor checked_rates(const Call& c) {
  const NoGradGuard off;
  Tensor rate = as_doubles(c.in(0));
  const double most = std::numeric_limits<double>::max();
  PELLUCID_CHECK(
      rate.numel() == 0 || (rate.ge(0).all().item<bool>() && rate.le(most).all().item<bool>()),
      ValueError, "poisson: every rate must be finite and at least 0, found rates from {} to {}.",
      rate.min().item<double>(), rate.max().item<double>());
  return rate;
}

void run_poisson(Call& c) {
  const Tensor rate = checked_rates(c);
  store(c, [&](double* out) {
    kernels::random_poisson(rate.raw<double>(), out, rate.numel(), range_of(c));
  });
}

void infer_binomial(Call& c) {
  check_defined(c, 0, "count");
  check_defined(c, 1, "prob");
  check_floating(c, c.in(0), "count");
  check_floating(c, c.in(1), "prob");
  check_same_dtype(c, c.in(0), c.in(1));
  c.make_output(broadcast_sizes(c.name(), c.in(0).sizes(), c.in(1).sizes()), c.in(0).dtype());
}

void run_binomial(Call& c) {
  const NoGradGuard off;
  const IntArrayRef sizes = c.out().sizes();
  const Tensor count = as_doubles(c.in(0).detach().expand(sizes)),
               p = as_doubles(c.in(1).detach().expand(sizes));
  store(c, [&](double* out) {
    kernels::random_binomial(count.raw<double>(), p.raw<double>(), out, count.numel(), range_of(c));
  });
}

/// The least positive normal number of a dtype: what is drawn is positive, so 0 is rounding alone.
double least_normal(DType t) {
  switch (t) {
    case kFloat16:
      return 0x1p-14;
    case kFloat64:
      return std::numeric_limits<double>::min();
    default:
      return std::numeric_limits<float>::min();
  }
}

void run_standard_gamma(Call& c) {
  const NoGradGuard off;
  const Tensor concentration = as_doubles(c.in(0));
  const double least = least_normal(c.out().dtype());
  store(c, [&](double* out) {
    const int64_t n = concentration.numel();
    kernels::random_gamma(concentration.raw<double>(), out, n, range_of(c));
    for (int64_t i = 0; i < n; ++i)
      if (out[i] < least) out[i] = least;
  });
}

void samples_of_counts(Samples& s) {
  s.add_no_grad({sample_uniform({3, 4}, 0, 50)});
  s.add_no_grad({sample_uniform({3, 4}, 0, 5).permute({1, 0})});
  s.add_no_grad({sample_uniform({0, 4}, 0, 5)});
  s.error({sample_ints({3}, 0, 5)}, "must be a floating tensor");
  s.large([] { return Values{full({1024, 1024}, 30.0)}; });
}

}  // namespace

extern constinit const OpDef poisson_op = {
    .schema = "poisson(Tensor self) -> Tensor",
    .doc = "Random counts of events that come at the rates of self.",
    .kind = OpKind::Random,
    .infer = infer_like_self,
    .cost = sampler_cost,
    .kernel = run_poisson,
    .check = [](const Call& c) { checked_rates(c); },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          samples_of_counts(s);
          s.error({sample_uniform({3}, -2, -1)}, "every rate must be finite and at least 0");
        },
    .random_count = block_for_each};

extern constinit const OpDef binomial_op = {
    .schema = "binomial(Tensor count, Tensor prob) -> Tensor",
    .doc = "How many of `count` tries succeed, each with probability `prob`.",
    .kind = OpKind::Random,
    .infer = infer_binomial,
    .cost = sampler_cost,
    .kernel = run_binomial,
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({full({3, 4}, 100.0, kFloat64), sample_uniform({4}, 0, 1)});
          s.error({sample_ints({3}, 0, 5), sample_uniform({3}, 0, 1)}, "must be a floating tensor");
          s.error({sample_uniform({3}, 0, 5), sample_uniform({2}, 0, 1)}, "do not broadcast");
          s.large([] { return Values{full({1024, 1024}, 100.0), full({1024, 1024}, 0.3)}; });
        },
    .random_count = block_for_each};

extern constinit const OpDef standard_gamma_op = {
    .schema = "_standard_gamma(Tensor self) -> Tensor",
    .doc =
        "Gamma variables of scale 1 and concentration self; gradients move each at its place in "
        "the distribution.",
    .kind = OpKind::Random,
    .infer = infer_like_self,
    .cost = sampler_cost,
    .kernel = run_standard_gamma,
    .saved = Saved::InputsAndOutputs,
    .vjp = [](const Vjp& v) -> Tensors {
      return {mul(v.grad, _standard_gamma_grad(v.in(0), v.out()))};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_uniform({3, 4}, 0.2, 5.0)});
          s.add_no_grad({sample_uniform({3, 4}, 0.2, 5.0).permute({1, 0})});
          s.error({sample_ints({3}, 1, 5)}, "must be a floating tensor");
          s.large([] { return Values{full({1024, 1024}, 2.5)}; });
        },
    .random_count = block_for_each};

extern constinit const OpDef sample_dirichlet_op = {
    .schema = "_sample_dirichlet(Tensor self) -> Tensor",
    .doc = "Shares along the last dim that sum to 1, of concentrations self.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_floating(c, c.in(0), "self");
      const DType t = c.in(0).dtype();
      const Tensor wide = c.in(0).to(kFloat64);
      const Tensor* const inputs[] = {&wide};
      const Tensor parts = call1(standard_gamma_op, inputs, {});
      const Tensor shares = c.in(0).dim() == 0 ? parts.div(parts) : parts.div(parts.sum(-1, true));
      return {shares.clamp(least_normal(t)).to(t)};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_uniform({3, 4}, 0.2, 5.0)});
          s.error({sample_ints({3}, 1, 5)}, "must be a floating tensor");
        }};

extern constinit const OpDef geometric_op = {
    .schema = "geometric[_!](Tensor self, float p) -> Tensor",
    .doc = "Random counts of tries up to the first success of probability p.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          PELLUCID_CHECK(c.number(0) > 0 && c.number(0) < 1, ValueError,
                         "geometric: p must be in (0, 1), found {}.", c.number(0));
          PELLUCID_CHECK(c.in(0).dtype() != kBool, TypeError,
                         "geometric: counts do not fit into {}.", c.in(0).dtype());
          c.make_output(c.in(0).sizes(), c.in(0).dtype());
        },
    .cost = sampler_cost,
    .kernel =
        [](Call& c) {
          store(c, [&](double* out) {
            kernels::random_geometric(c.number(0), out, c.out().numel(), range_of(c));
          });
        },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4}), 0.3});
          s.add_no_grad({sample_ints({3, 4}, 0, 2), 0.5});
          s.error({sample_randn({3}), 1.0}, "p must be in (0, 1), found 1");
          s.large([] { return Values{zeros({1024, 1024}), 0.3}; });
        },
    .writes_over = 1,
    .random_count = block_for_each};

extern constinit const OpDef cauchy_op = {
    .schema = "cauchy[_!](Tensor self, float median=0.0, float sigma=1.0) -> Tensor",
    .doc = "Random numbers of a Cauchy distribution.",
    .kind = OpKind::Random,
    .infer =
        [](Call& c) {
          infer_like_self(c);
          PELLUCID_CHECK(c.number(1) > 0, ValueError, "cauchy: sigma must be positive, found {}.",
                         c.number(1));
        },
    .cost = sampler_cost,
    .kernel =
        [](Call& c) {
          store(c, [&](double* out) {
            kernels::random_cauchy(c.number(0), c.number(1), out, c.out().numel(), range_of(c));
          });
        },
    .vjp = independent,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4})});
          s.add_no_grad({sample_randn({3, 4}), 2.0, 0.5});
          s.error({sample_randn({3}), 0.0, 0.0}, "sigma must be positive, found 0");
          s.error({sample_ints({3}, 0, 5)}, "must be a floating tensor");
          s.large([] { return Values{zeros({1024, 1024})}; });
        },
    .writes_over = 1,
    .random_count = block_for_each};

}  // namespace pellucid
