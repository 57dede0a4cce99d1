// The range check of numbers that are written into integer tensors.
#include "ops/number_range.h"

#include <cmath>
#include <limits>

#include "pellucid/error.h"

namespace pellucid {

void check_fits(std::string_view op, const Scalar& value, DType dtype) {
  if (!is_integral(dtype, false) || value.isBoolean()) return;
  const bool fits = visit(dtype, [&](auto v) {
    using T = decltype(v);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
      if (value.isFloatingPoint()) {
        const double whole = std::trunc(value.toDouble());  // NaN fits nothing
        // As a double the greatest int64 is 2^63, which does not fit: compared with the next one.
        return whole >= static_cast<double>(kLeast) && whole < static_cast<double>(kMost) + 1.0;
      }
      const int64_t least = std::is_unsigned_v<T> ? -static_cast<int64_t>(kMost) : int64_t{kLeast};
      return value.toLong() >= least && value.toLong() <= static_cast<int64_t>(kMost);
    } else {
      return true;
    }
  });
  if (value.isFloatingPoint())
    PELLUCID_CHECK(fits, ValueError, "{}: the value {} does not fit {}.", op, value.toDouble(),
                   dtype);
  else
    PELLUCID_CHECK(fits, ValueError, "{}: the value {} does not fit {}.", op, value.toLong(),
                   dtype);
}

}  // namespace pellucid
