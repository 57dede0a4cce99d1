// Counts in bins, covariances and correlations; vectors brought down to a norm.
#include <cmath>

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

void check_histogram(const Call& c, const Tensor& self, const Tensor& weight) {
  PELLUCID_CHECK(self.dtype() == kFloat32 || self.dtype() == kFloat64, TypeError,
                 "histogram: takes float32 and float64, found {}.", self.dtype());
  if (weight.defined())
    PELLUCID_CHECK(weight.sizes() == self.sizes() && weight.dtype() == self.dtype(), ShapeError,
                   "{}: weight must have the sizes and dtype of self, found {} {} for {} {}.",
                   c.name(), weight.dtype(), weight.sizes(), self.dtype(), self.sizes());
}

// The edges of a number of bins between two bounds, or the least and the greatest value.
Tensor even_edges(const Tensor& self, int64_t bins, const Tensor& range) {
  PELLUCID_CHECK(bins > 0, ValueError, "histogram: bins must be positive, found {}.", bins);
  double low = 0, high = 1;
  if (range.defined()) {
    PELLUCID_CHECK(range.dim() == 1 && range.numel() == 2, ShapeError,
                   "histogram: range must have 2 numbers, found sizes {}.", range.sizes());
    low = range.select(0, 0).item<double>(), high = range.select(0, 1).item<double>();
  } else if (self.numel() > 0) {
    low = self.min().item<double>(), high = self.max().item<double>();
  }
  PELLUCID_CHECK(std::isfinite(low) && std::isfinite(high), ValueError,
                 "histogram: the range from {} to {} is not finite.", low, high);
  PELLUCID_CHECK(low <= high, ValueError, "histogram: min must not exceed max, found {} and {}.",
                 low, high);
  if (low == high) low -= 0.5, high += 0.5;  // a bin needs a width
  return linspace(low, high, bins + 1, self.dtype());
}

Tensors counted(const Tensor& self, const Tensor& edges, const Tensor& weight, bool density) {
  const Tensor x = self.reshape({-1});
  const int64_t bins = edges.numel() - 1;
  const Tensor inside = x.ge(edges.select(0, 0)).logical_and(x.le(edges.select(0, bins)));
  const Tensor found = masked_select(x, inside).contiguous();
  const Tensor places =
      searchsorted(edges.contiguous(), found, false, true).sub(1).clamp_max(bins - 1);
  const Tensor weights = weight.defined() ? masked_select(weight.reshape({-1}), inside) : Tensor();
  Tensor counts = bincount(places, weights, bins).to(self.dtype());
  if (density) counts = counts / (counts.sum() * edges.diff());
  return {counts, edges};
}

Tensors compose_histogram_edges(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "bins");
  const Tensor &self = c.in(0), &bins = c.in(1), weight = c.has_in(2) ? c.in(2) : Tensor();
  check_histogram(c, self, weight);
  PELLUCID_CHECK(
      bins.dim() == 1 && bins.dtype() == self.dtype(), TypeError,
      "histogram: the edges of bins must be a vector of self's dtype, found {} {} for {}.",
      bins.dtype(), bins.sizes(), self.dtype());
  PELLUCID_CHECK(bins.numel() >= 2, ValueError, "histogram: at least 2 edges make a bin, found {}.",
                 bins.numel());
  const NoGradGuard off;
  return counted(self, bins.detach(), weight, c.flag(0));
}

Tensors compose_histogram(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor &self = c.in(0), weight = c.has_in(2) ? c.in(2) : Tensor();
  check_histogram(c, self, weight);
  const NoGradGuard off;
  return counted(self, even_edges(self, c.integer(0), c.has_in(1) ? c.in(1) : Tensor()), weight,
                 c.flag(1));
}

void check_weights(const Call& c, size_t input, std::string_view name, int64_t observations,
                   bool counts) {
  const Tensor& given = c.in(input);
  PELLUCID_CHECK(given.dim() <= 1, ShapeError, "cov: {} must have at most 1 dimension, found {}.",
                 name, given.sizes());
  PELLUCID_CHECK(counts ? is_integral(given.dtype(), false) : is_floating(given.dtype()), TypeError,
                 "cov: {} must be {}, found {}.", name, counts ? "integers" : "floating numbers",
                 given.dtype());
  PELLUCID_CHECK(given.numel() == observations, ShapeError,
                 "cov: {} must have a number for each of the {} observations, found {}.", name,
                 observations, given.numel());
  const NoGradGuard off;
  PELLUCID_CHECK(given.ge(0).all().item<bool>(), ValueError, "cov: {} must not be negative.", name);
}

// Attribute: correction. Inputs: self, fweights, aweights.
Tensor compose_cov(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  PELLUCID_CHECK(self.dim() <= 2, ShapeError,
                 "{}: self must have at most 2 dimensions, found sizes {}.", c.name(),
                 self.sizes());
  PELLUCID_CHECK(self.dtype() != kBool, TypeError, "{}: takes numbers, found a bool tensor.",
                 c.name());
  Tensor x = self.dim() < 2 ? self.reshape({1, -1}) : self;
  if (!x.is_floating_point()) x = x.to(get_default_dtype());
  const auto correction = static_cast<double>(c.attrs().empty() ? 1 : c.integer(0));
  Tensor weights;
  if (c.has_in(1)) check_weights(c, 1, "fweights", x.size(1), true), weights = c.in(1);
  if (c.has_in(2)) {
    check_weights(c, 2, "aweights", x.size(1), false);
    weights = weights.defined() ? weights * c.in(2) : c.in(2);
  }
  if (!weights.defined()) {
    x = x - x.mean({1}, true);
    const double norm = std::max(static_cast<double>(x.size(1)) - correction, 0.0);
    return x.matmul(x.t()).div(norm).squeeze();
  }
  weights = weights.to(x.dtype());
  const Tensor total = weights.sum();
  PELLUCID_CHECK(total.detach().item<double>() != 0, ValueError,
                 "cov: the weights sum to 0, so they cannot be normalised.");
  x = x - (x * weights).sum({1}, true) / total;
  const Tensor norm =
      c.has_in(2) ? total - (weights * c.in(2)).sum() / total * correction : total - correction;
  return (x * weights).matmul(x.t()).div(norm.clamp_min(0)).squeeze();
}

Tensor compose_corrcoef(const Call& c) {
  const Tensor m = compose_cov(c);
  if (m.dim() == 0) return m / m;
  const Tensor root = m.diagonal().sqrt();
  return (m / root.unsqueeze(1) / root.unsqueeze(0)).clamp(-1, 1);
}

Tensor compose_renorm(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const double p = c.number(0), most = c.number(2);
  PELLUCID_CHECK(p > 0, ValueError, "renorm: p must be positive, found {}.", p);
  PELLUCID_CHECK(most >= 0, ValueError, "renorm: maxnorm must not be negative, found {}.", most);
  PELLUCID_CHECK(self.dim() >= 2, ShapeError,
                 "renorm: self must have at least 2 dimensions, found sizes {}.", self.sizes());
  const int64_t dim = wrap_dim("renorm", c.integer(1), self.dim());
  Dims others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != dim) others.push_back(d);
  const Tensor norms = linalg_vector_norm(self, p, others.ref(), true), above = norms.gt(most);
  const Tensor scale = (norms.masked_fill(above.logical_not(), 1) + 1e-7).reciprocal() * most;
  return self * scale.masked_fill(above.logical_not(), 1);
}

Tensor compose_pdist(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  check_dim(c, self, 2, "self");
  check_floating(c, self, "self");
  const double p = c.number(0);
  PELLUCID_CHECK(p >= 0, ValueError, "pdist: p must not be negative, found {}.", p);
  const int64_t n = self.size(0);
  const Tensor pairs = triu_indices(n, n, 1);
  const Tensor first = self.index_select(0, pairs.select(0, 0));
  return linalg_vector_norm(first - self.index_select(0, pairs.select(0, 1)), p, {1});
}

}  // namespace

extern constinit const OpDef histogram_edges_op = {
    .schema =
        "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool "
        "density=False) -> (Tensor hist, Tensor bin_edges)",
    .doc = "How many values, or how much weight, lie between neighbouring edges.",
    .kind = OpKind::Opaque,
    .compose = compose_histogram_edges,
    .samples =
        [](Samples& s) {
          const Tensor edges = linspace(-2.0, 2.0, 6, kFloat64);
          s.add_no_grad({sample_randn({20}), edges});
          s.add_no_grad({sample_randn({4, 5}), edges},
                        {{"weight", sample_uniform({4, 5}, 0, 1)}, {"density", true}});
          s.error({sample_randn({4}), sample_randn({1})}, "at least 2 edges");
          s.error({sample_randn({4}), sample_ints({3}, 0, 2)}, "a vector of self's dtype");
        },
};

extern constinit const OpDef histogram_op = {
    .schema =
        "histogram.bin_ct(Tensor self, int bins=100, *, Tensor? range=None, Tensor? weight=None, "
        "bool density=False) -> (Tensor hist, Tensor bin_edges)",
    .doc =
        "How many values, or how much weight, lie in equal bins over a range, a vector of its two "
        "ends; over all values unless given.",
    .kind = OpKind::Opaque,
    .compose = compose_histogram,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({20}), 5});
          s.add_no_grad({sample_randn({4, 5}), 3},
                        {{"range", tensor(std::vector<double>{-1.0, 1.0}, kFloat64)},
                         {"weight", sample_uniform({4, 5}, 0, 1)}});
          s.error({sample_randn({4}), 0}, "bins must be positive");
          s.error({sample_randn({4}), 3}, "min must not exceed max",
                  {{"range", tensor(std::vector<double>{2.0, 1.0}, kFloat64)}});
          s.error({full({2}, NAN, kFloat64), 3}, "is not finite");
          s.error({sample_ints({4}, 0, 2), 3}, "takes float32 and float64");
          s.error({sample_randn({4}), 3}, "weight must have the sizes",
                  {{"weight", sample_randn({2})}});
        },
};

extern constinit const OpDef cov_op = {
    .schema =
        "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> "
        "Tensor",
    .doc =
        "The covariance matrix of variables in rows; fweights count the observations, aweights "
        "weigh them.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_cov(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5})});
          s.add({sample_randn({5})}, {{"correction", 0}});
          s.add({sample_randn({2, 4})}, {{"fweights", sample_ints({4}, 1, 4)}});
          s.add({sample_randn({2, 4})}, {{"fweights", sample_ints({4}, 1, 4)},
                                         {"aweights", sample_uniform({4}, 0.5, 2.0)}});
          s.error({sample_randn({2, 2, 2})}, "at most 2 dimensions");
          s.error({ones({2, 3}, kBool)}, "takes numbers");
          s.error({sample_randn({2, 3})}, "must be integers", {{"fweights", sample_randn({3})}});
          s.error({sample_randn({2, 3})}, "must not be negative",
                  {{"fweights", sample_ints({3}, -2, -1)}});
          s.error({sample_randn({2, 3})}, "sum to 0", {{"aweights", zeros({3}, kFloat64)}});
          s.error({sample_randn({2, 3})}, "each of the 3 observations",
                  {{"aweights", sample_uniform({2}, 0, 1)}});
        },
};

extern constinit const OpDef corrcoef_op = {
    .schema = "corrcoef(Tensor self) -> Tensor",
    .doc = "The correlation coefficients of variables in rows.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_corrcoef(c)}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 5})});
          s.add_no_grad({sample_randn({5})});
          s.error({sample_randn({2, 2, 2})}, "at most 2 dimensions");
        },
};

extern constinit const OpDef renorm_op = {
    .schema = "renorm[_](Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    .doc = "self with each slice along dim scaled down to a p-norm of maxnorm.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_renorm(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}, 0.1), 2, 0, 1.5});
          s.add({sample_randn({3, 2, 2}, 0.1), 1, -1, 2.0});
          s.error({sample_randn({3, 4}), 0, 0, 1}, "p must be positive");
          s.error({sample_randn({3, 4}), 2, 0, -1}, "maxnorm must not be negative");
          s.error({sample_randn({3}), 2, 0, 1}, "at least 2 dimensions");
          s.error({sample_randn({3, 4}), 2, 5, 1}, "out of range");
        },
};

extern constinit const OpDef pdist_op = {
    .schema = "pdist(Tensor self, float p=2) -> Tensor",
    .doc = "The p-norm distances between all pairs of rows.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_pdist(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3})});
          s.add({sample_randn({3, 2}), 1.0});
          s.add({sample_randn({1, 2})});
          s.error({sample_randn({3})}, "must have 2 dimensions");
          s.error({sample_randn({3, 2}), -1.0}, "p must not be negative");
        },
};

}  // namespace pellucid
