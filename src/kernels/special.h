// Special functions of the normal distribution and Bessel functions, one number at a time, computed
// in double for every dtype.
#pragma once

namespace pellucid::kernels {

/// log of the share of normal variables below x, exact in both tails.
double log_normal_share(double x);

/// The x below which the share p of normal variables lies; -inf and inf at 0 and 1, NaN beyond.
double normal_quantile(double p);

/// The modified Bessel functions of the first kind, of order 0 and 1.
double bessel_i0(double x);
double bessel_i1(double x);

}  // namespace pellucid::kernels
