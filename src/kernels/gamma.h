// The logarithm of the gamma function and its derivatives, one number at a time: distributions ask
// for them, inner loops do not. Computed in double for every dtype.
#pragma once

namespace pellucid::kernels {

/// log |gamma(x)|; inf at 0 and the negative integers.
double log_gamma(double x);

/// The derivative of log_gamma; NaN at the negative integers, and -inf or inf at 0 and -0.
double digamma(double x);

/// The n-th derivative of digamma, n >= 1.
double polygamma(int n, double x);

/// How a sample x of the gamma distribution moves with its concentration a, its place in the
/// distribution staying as it is: -(dP(a, x)/da) / density(a, x), P the share of samples below x.
double gamma_sample_slope(double a, double x);

}  // namespace pellucid::kernels
