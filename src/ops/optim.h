// What the optimisers' step ops share: the checks of their arguments, the arrays as kernels take
// them, and samples.
#pragma once

#include <array>
#include <string>

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::optim_steps {

/// Inputs 0 (param) and 1 (grad), then `states` of the parameter's sizes, of which those from
/// `required` on may be absent.
inline void check_arrays(const Call& c, size_t states, size_t required) {
  const std::vector<Arg>& args = c.op().info->args;
  const size_t last = 2 + states;
  for (size_t i = 0; i < last; ++i) {
    if (i < 2 + required) check_defined(c, i, args[i].name);
    if (!c.has_in(i)) continue;
    check_floating(c, c.in(i), args[i].name);
    check_same_dtype(c, c.in(0), c.in(i));
    PELLUCID_CHECK(c.in(i).sizes() == c.in(0).sizes(), ShapeError,
                   "{}: '{}' has sizes {} but 'param' has {}.", c.name(), args[i].name,
                   c.in(i).sizes(), c.in(0).sizes());
  }
}

inline void check_rate(const Call& c, size_t i) {
  check_defined(c, i, "lr");
  PELLUCID_CHECK(c.in(i).dim() == 0 && c.in(i).is_floating_point(), TypeError,
                 "{}: 'lr' must be a 0-dimensional floating tensor, found {}.", c.name(),
                 describe(c.in(i)));
}

/// PyTorch keeps the count as a float, in which its state dicts bring it.
inline void check_step(const Call& c, size_t i) {
  check_defined(c, i, "step");
  PELLUCID_CHECK(c.in(i).dim() == 0 && (c.in(i).dtype() == kInt64 || c.in(i).is_floating_point()),
                 TypeError,
                 "{}: 'step' must be a 0-dimensional int64 or floating tensor, found {}.", c.name(),
                 describe(c.in(i)));
}

/// A number that a step keeps beside the arrays.
inline void check_number(const Call& c, size_t i) {
  const std::string& name = c.op().info->args[i].name;
  check_defined(c, i, name);
  PELLUCID_CHECK(c.in(i).dim() == 0 && c.in(i).is_floating_point(), TypeError,
                 "{}: '{}' must be a 0-dimensional floating tensor, found {}.", c.name(), name,
                 describe(c.in(i)));
}

/// The arrays as the kernels take them, written back at the end of the scope's work by finish().
template <size_t N> class Arrays {
 public:
  explicit Arrays(const Call& c) {
    type = is_reduced_float(c.in(0).dtype()) ? kFloat32 : c.in(0).dtype();
    n = c.in(0).numel();
    for (size_t i = 0; i < N; ++i)
      if (c.has_in(i)) given_[i] = c.in(i).data(), used_[i] = contiguous_values(given_[i].to(type));
  }
  void* operator[](size_t i) const { return used_[i].defined() ? used_[i].raw_data() : nullptr; }
  /// Copies what the kernel changed (all but the gradient) back where it worked on a copy.
  void finish() const {
    for (size_t i = 0; i < N; ++i)
      if (i != 1 && given_[i].defined() && !used_[i].is_same(given_[i])) given_[i].copy_(used_[i]);
  }
  DType type;
  int64_t n;

 private:
  std::array<Tensor, N> given_, used_;
};

inline double number_in(const Call& c, size_t i) {
  return visit(c.in(i).dtype(),
               [&](auto v) { return static_cast<double>(*c.in(i).raw<decltype(v)>()); });
}

/// Writes a number into the 0-dim tensor at input i.
inline void set_number(const Call& c, size_t i, double value) {
  visit(c.in(i).dtype(), [&](auto v) {
    using T = decltype(v);
    *c.in(i).raw<T>() = static_cast<T>(value);
  });
}

/// Counts the step at input i and returns the count.
inline int64_t next_step(const Call& c, size_t i) {
  const double count = number_in(c, i) + 1;
  set_number(c, i, count);
  return static_cast<int64_t>(count);
}

inline Cost step_cost(const Call& c, double flops_per_element) {
  double bytes = 0;
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has_in(i)) bytes += static_cast<double>(c.in(i).nbytes()) * (i == 1 ? 1 : 2);
  return {flops_per_element * static_cast<double>(c.in(0).numel()), bytes};
}

inline Tensor rate() { return full({}, 0.1, kFloat64); }
inline Tensor steps() { return full({}, 3, kInt64); }
inline Tensor square(IntArrayRef sizes) { return sample_uniform(sizes, 0.1, 1); }

}  // namespace pellucid::optim_steps
