// Whether two tensors look at the same memory: writing one may change what is still to be read of
// the other.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid {

enum class Overlap : uint8_t {
  None,
  Same,  ///< the same elements in the same order
  Some   ///< some elements, or the same ones in another order; also where it is too hard to tell
};

/// The same for tensors of which it is not known yet that they share nothing.
Overlap compare_memory(const detail::TensorImpl& a, const detail::TensorImpl& b);

/// Of tensors with memory. Storages that are not the allocator's (from_blob, NumPy) may share
/// memory too: those are compared by address.
inline Overlap overlap(const detail::TensorImpl& a, const detail::TensorImpl& b) {
  if (!a.storage || !b.storage) return Overlap::None;
  if (a.storage != b.storage && !a.storage->borrowed && !b.storage->borrowed) [[likely]]
    return Overlap::None;
  return compare_memory(a, b);
}

}  // namespace pellucid
