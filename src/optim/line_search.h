// A step length along a direction that satisfies the strong Wolfe conditions.
#pragma once

#include <functional>

#include "pellucid/tensor.h"

namespace pellucid::optim {

/// The function along a direction, at x + t * direction.
struct LinePoint {
  double t = 0, value = 0;
  double slope = 0;  ///< the gradient's product with the direction
  Tensor gradient;
};

/// The first point found from the guess `t` on where the value has fallen enough and the slope has
/// flattened enough, or the best one after 1 + most_tries evaluations. `direction_size` is the
/// direction's greatest magnitude: a bracket that moves no parameter by 1e-9 is not searched on.
LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       double t, int64_t most_tries, double direction_size);

}  // namespace pellucid::optim
