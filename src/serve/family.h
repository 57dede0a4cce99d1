// The families that the page gives a colour each.
#pragma once

#include <string_view>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::serve {

/// By signature: contraction, pointwise, reduction, movement, optimizer or other. What only an
/// optimiser calls is of the optimizer.
std::vector<std::string_view> families_of(const profile::Profile& p);

}  // namespace pellucid::serve
