// Sizes, dtypes, devices and scalars written to a C++ stream, as libtorch writes them:
// `std::cout << x.sizes() << x.scalar_type()` prints [2, 3]Float.
#pragma once

#include <ostream>

#include "pellucid/array_ref.h"
#include "pellucid/options.h"
#include "pellucid/scalar.h"

namespace pellucid {

/// [2, 3]
template <class T> std::ostream& operator<<(std::ostream& out, ArrayRef<T> values) {
  out << '[';
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
  return out << ']';
}
inline std::ostream& operator<<(std::ostream& out, DType t) { return out << toString(t); }
inline std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << (type == kCPU ? "cpu" : "cuda");
}
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }
inline std::ostream& operator<<(std::ostream& out, Layout) { return out << "Strided"; }
inline std::ostream& operator<<(std::ostream& out, const Scalar& s) { return out << to_string(s); }

}  // namespace pellucid
