// Random numbers whose distribution differs from element to element: Poisson, binomial and gamma.
// Each element draws from a stream of its own, so that rejections of one leave the others alone:
// element i takes the Philox blocks whose counter is (offset + i, draw), draw = 0, 1, …. A fill of
// n elements spends n blocks of the generator, whatever it rejects, and any number of threads gives
// the same bits. Every loop ends whatever the parameters are, NaN and infinities included.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace pellucid::kernels {

/// out[i] is a Poisson count of rate[i], which must be from 0 up and finite.
void random_poisson(const double* rate, double* out, int64_t n, PhiloxRange range);

/// out[i] is how many of floor(count[i]) tries succeed with probability p[i]; as in PyTorch 0 for a
/// count or a p below 0, the count for a p above 1, and NaN where either is NaN.
void random_binomial(const double* count, const double* p, double* out, int64_t n,
                     PhiloxRange range);

/// out[i] is a gamma variable of scale 1; 0 for concentration 0, NaN below it and for NaN.
void random_gamma(const double* concentration, double* out, int64_t n, PhiloxRange range);

/// out[i] counts the tries up to the first success, each with probability p in (0, 1).
void random_geometric(double p, double* out, int64_t n, PhiloxRange range);

/// out[i] is a Cauchy variable.
void random_cauchy(double median, double sigma, double* out, int64_t n, PhiloxRange range);

/// The logarithm of the Poisson probability of k at a rate; of the binomial one of k in n tries.
/// Exact to rounding for every size of the arguments: no large terms cancel.
double log_poisson(double k, double rate);
double log_binomial(double k, double n, double p);

}  // namespace pellucid::kernels
