// What a storage's bytes count as, where that is known only after they were taken.
#pragma once

#include "pellucid/detail/tensor_impl.h"

namespace pellucid::detail {

/// Counts the storage's bytes under another category, in the allocator's counters, in a ledger of
/// an estimate and in a recording: a tensor that becomes a parameter.
PELLUCID_API void set_memory_category(Storage& s, MemoryCategory category) noexcept;

}  // namespace pellucid::detail
