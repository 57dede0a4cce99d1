// A block of memory of which it is known only later what it is for.
#pragma once

#include <cstddef>

#include "pellucid/memory.h"

namespace pellucid::profile {

/// Notes in a recording that a live block counts as `category` from its beginning on.
void record_category(void* block, size_t bytes, MemoryCategory category) noexcept;

}  // namespace pellucid::profile
