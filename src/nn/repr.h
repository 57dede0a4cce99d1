// How printed modules write their values: as Python does.
#pragma once

#include <array>
#include <string>

#include "pellucid/nn/arg.h"
#include "pellucid/scalar.h"

namespace pellucid::nn::repr {

inline std::string text(bool v) { return v ? "True" : "False"; }
inline std::string text(double v) { return to_string(Scalar(v)); }
inline std::string text(int64_t v) { return std::to_string(v); }
/// (3, 3), or (3,) for one.
template <class List> std::string tuple(const List& list) {
  std::string out;
  size_t count = 0;
  for (const int64_t v : list) out += (count++ ? ", " : "") + std::to_string(v);
  return '(' + out + (count == 1 ? ",)" : ")");
}
/// As it was given: one number or a tuple.
template <size_t D> std::string one_or_tuple(const ExpandingArray<D>& a) {
  return a.from_one() ? std::to_string(a[0]) : tuple(*a);
}

}  // namespace pellucid::nn::repr
