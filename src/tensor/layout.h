// Layouts that an op chose, read while another thread may make one of them visible: that moves the
// values to another storage and changes the strides.
#pragma once

#include <atomic>
#include <mutex>

#include "pellucid/tensor.h"

namespace pellucid::detail {

/// Whether the tensor has such a layout. Once this is false, strides and storage stay as they are.
inline bool hides_layout(const TensorImpl& t) {
  return std::atomic_ref<bool>(const_cast<bool&>(t.hidden_layout)).load(std::memory_order_acquire);
}

/// The values in row-major order in a storage of their own: a call of the op _relayout.
Tensor row_major(const Tensor& t);

/// Held while such a layout is made visible or copied (one of a fixed set, by address).
std::mutex& layout_mutex(const TensorImpl& t);

}  // namespace pellucid::detail
