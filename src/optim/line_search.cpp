// The line search of Nocedal and Wright (Numerical Optimization, algorithms 3.5 and 3.6): steps
// grow until they bracket a good one, then the bracket shrinks by cubic interpolation. The
// safeguards (how far a step may grow, how near to a bracket's end it may fall) are those of
// minFunc, which PyTorch has too, so that both take the same steps.
#include "optim/line_search.h"

#include <algorithm>
#include <cmath>

namespace pellucid::optim {
namespace {

constexpr double kFall = 1e-4, kFlatten = 0.9;  // the conditions' constants
constexpr double kNarrow = 1e-9;  // whatever the optimiser's own tolerance is, as in PyTorch

/// The minimum of the cubic through two points and their slopes, kept within [low, high].
double cubic_minimum(const LinePoint& p, const LinePoint& q, double low, double high) {
  const LinePoint &a = p.t <= q.t ? p : q, &b = p.t <= q.t ? q : p;
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

/// A step between `a` and `b` that does not come near the same end twice in a row; `near_end` is
/// whether the last one did.
double step_inside(const LinePoint& a, const LinePoint& b, bool& near_end) {
  const double low = std::min(a.t, b.t), high = std::max(a.t, b.t), margin = 0.1 * (high - low);
  const double t = cubic_minimum(a, b, low, high);
  if (std::min(high - t, t - low) >= margin) {
    near_end = false;
    return t;
  }
  const bool again = near_end || t >= high || t <= low;
  near_end = !again;
  if (!again) return t;
  return std::abs(t - high) < std::abs(t - low) ? high - margin : low + margin;
}

}  // namespace

LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       double t, int64_t most_tries, double direction_size) {
  const auto too_high = [&](const LinePoint& p) {
    return p.value > start.value + kFall * p.t * start.slope;
  };
  const auto flat = [&](const LinePoint& p) {
    return std::abs(p.slope) <= -kFlatten * start.slope;
  };
  LinePoint before = start, now = at(t);
  int64_t tries = 0;
  bool bracketed = false;
  for (; tries < most_tries; ++tries) {
    bracketed = too_high(now) || (tries > 1 && now.value >= before.value);
    if (!bracketed && flat(now)) return now;
    if (bracketed || (bracketed = now.slope >= 0)) break;
    const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = now;
    now = at(next);
  }
  if (!bracketed) before = start;
  const bool rising = before.value <= now.value;
  LinePoint low = rising ? before : now, high = rising ? now : before;
  bool near_end = false;
  for (; tries < most_tries; ++tries) {
    if (std::abs(high.t - low.t) * direction_size < kNarrow) break;
    now = at(step_inside(low, high, near_end));
    if (too_high(now) || now.value >= low.value) {
      high = now;
      if (high.value < low.value) std::swap(low, high);
      continue;
    }
    if (flat(now)) return now;
    if (now.slope * (high.t - low.t) >= 0) high = low;
    low = now;
  }
  return low;
}

}  // namespace pellucid::optim
