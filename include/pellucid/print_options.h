// How tensors are written as text, for all tensors of the program.
#pragma once

#include <cstdint>
#include <optional>

#include "pellucid/api.h"

namespace pellucid {

/// PyTorch's options of printing, with its defaults.
struct PrintOptions {
  int precision = 4;             ///< digits after the point
  int64_t threshold = 1000;      ///< tensors of more elements are written with their edges alone
  int64_t edgeitems = 3;         ///< how many at each edge
  int64_t linewidth = 80;        ///< characters
  std::optional<bool> sci_mode;  ///< 1.0000e+00 always or never; unset: where numbers differ much
};

PELLUCID_API PrintOptions get_print_options();
/// Throws ValueError for a negative number and for a precision above 64.
PELLUCID_API void set_print_options(const PrintOptions& options);

}  // namespace pellucid
