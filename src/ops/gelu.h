// The two formulas of GELU, for its own ops and for those in which it is a step.
#pragma once

#include <string_view>

#include "ops/formula.h"
#include "pellucid/error.h"

namespace pellucid {

struct Gelu {
  static constexpr double kFlops = 8;
  static constexpr double kSqrtHalf = 0.70710678118654752440,
                          kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)
  template <class V> V value(V x) const { return x * cdf(x); }
  template <class V> V grad(V g, V x) const {
    return g * (cdf(x) + x * (V(kDensity) * exp(x * x * V(-0.5))));
  }

 private:
  template <class V> static V cdf(V x) {
    if constexpr (requires { typename V::Scalar; })
      return normal_cdf(x);
    else
      return V(0.5) * (V(1) + erf(x * V(kSqrtHalf)));
  }
};
struct GeluTanh {
  static constexpr double kFlops = 10;
  static constexpr double kScale = 0.79788456080286535588, kCube = 0.044715;  // sqrt(2 / pi)
  template <class V> V value(V x) const {
    return V(0.5) * x * (V(1) + tanh(V(kScale) * (x + V(kCube) * x * x * x)));
  }
  template <class V> V grad(V g, V x) const {
    const V x2 = x * x, t = tanh(V(kScale) * (x + V(kCube) * x2 * x));
    const V slope = V(0.5) * x * (V(1) - t * t) * (V(kScale) * (V(1) + V(3 * kCube) * x2));
    return g * (V(0.5) * (V(1) + t) + slope);
  }
};

/// Whether the tanh approximation is meant, from the text that gelu takes as `approximate`.
inline bool gelu_is_tanh(std::string_view op, std::string_view approximate) {
  PELLUCID_CHECK(approximate == "none" || approximate == "tanh", ValueError,
                 "{}: approximate must be 'none' or 'tanh', found '{}'.", op, approximate);
  return approximate == "tanh";
}

}  // namespace pellucid
