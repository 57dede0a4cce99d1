// What a Tensor handle points to: sizes, strides, storage and, where gradients are involved,
// AutogradMeta. Nothing here is part of the API that programs should use directly.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pellucid/detail/dims.h"
#include "pellucid/detail/intrusive.h"
#include "pellucid/dtype.h"
#include "pellucid/memory.h"

namespace pellucid {
class Tensor;
namespace autograd {
struct Node;
}
namespace detail {

struct TensorImpl;
struct AutogradMeta;
class Capture;

/// The bytes that one or several tensors look at, and the version that counts in-place changes of
/// them.
struct PELLUCID_API Storage : RefCounted {
  /// Where a capture keeps what it knows about the storage: the number of the capture and a place
  /// in its list; 0 for none. Only that capture writes it again.
  std::atomic<uint32_t> slot{0};
  void* data = nullptr;
  size_t bytes = 0;
  std::atomic<uint32_t> version{0};
  MemoryCategory category = MemoryCategory::Other;
  /// Of kPointerGivenOut, kHeld.
  std::atomic<uint8_t> notes{0};
  /// A mutable pointer was given to the program: then nothing derived from the bytes may be kept.
  static constexpr uint8_t kPointerGivenOut = 1;
  /// Something derived from the bytes is kept (tensor/weights.h): whoever changes them drops it.
  static constexpr uint8_t kHeld = 2;
  bool pointer_given_out() const {
    return (notes.load(std::memory_order_relaxed) & kPointerGivenOut) != 0;
  }
  void note_pointer_given_out() {
    if (!pointer_given_out()) notes.fetch_or(kPointerGivenOut, std::memory_order_relaxed);
  }
  /// Set for memory that is not the allocator's (from_blob).
  std::unique_ptr<std::function<void(void*)>> deleter;
  bool borrowed = false;
  /// The number of the one capture whose calls ever used the storage; 0 for none.
  std::atomic<uint8_t> user{0};
  /// How often a tensor over this memory took another one (set_data), or began or ceased to require
  /// a gradient: a program that was traced with it asks.
  std::atomic<uint16_t> tensors_changed{0};
  /// How many references captures hold: their calls read the bytes, or write them, when they run.
  std::atomic<uint32_t> captured{0};
  /// Which capture has calls that write the bytes and did not run yet; null for none.
  std::atomic<Capture*> writer{nullptr};

  static void destroy(Storage* s) noexcept;
};

/// Forgets what is kept of a storage.
PELLUCID_API void drop_held(Storage& s) noexcept;
/// To be called after the bytes of a storage changed, and before they do (settle()).
inline void bytes_change(Storage& s) noexcept {
  if (s.notes.load(std::memory_order_relaxed) & Storage::kHeld) [[unlikely]]
    drop_held(s);
}

/// Runs the captured calls that write a storage, and what they need, unless this thread is running
/// them.
PELLUCID_API void run_writers(const Storage& s);

PELLUCID_API Ref<Storage> new_storage(size_t bytes);
PELLUCID_API Ref<Storage> borrow_storage(void* data, size_t bytes,
                                         std::function<void(void*)> deleter);

struct PELLUCID_API TensorImpl : RefCounted {
  DType dtype = kFloat32;
  bool wrapped_number = false;  ///< made from a Python-like number: weakest in type promotion
  bool hidden_layout = false;   ///< an op, not the program, chose channels-last
  bool inference = false;       ///< made in inference mode
  bool no_grad_view = false;    ///< a view taken while gradients were off
  bool untracked = false;       ///< PyTorch's .data: changes through it do not count as versions
  Dims sizes;
  Dims strides;
  int64_t numel = 0;
  int64_t offset = 0;            ///< in elements
  Ref<Storage> storage;          ///< null: no values (a meta tensor)
  Ref<TensorImpl> base;          ///< for a differentiable view: the tensor that owns the storage
  AutogradMeta* meta = nullptr;  ///< owned; null while no gradient is involved

  /// The first element. Captured calls that write the storage run first, so nobody reads too early.
  void* data() const {
    if (storage->writer.load(std::memory_order_acquire)) [[unlikely]]
      run_writers(*storage);
    return static_cast<char*>(storage->data) + offset * element_size(dtype);
  }
  bool is_contiguous() const {
    return sizes.size() == 1 ? strides[0] == 1 || sizes[0] <= 1 : is_contiguous_nd();
  }
  bool is_channels_last() const;
  /// Counts an in-place change.
  void bump_version() const {
    if (!untracked) storage->version.fetch_add(1, std::memory_order_relaxed);
    bytes_change(*storage);
  }
  /// Sets sizes with row-major strides; checks that numel fits int64.
  void set_contiguous(IntArrayRef new_sizes);
  static void destroy(TensorImpl* t) noexcept;

 private:
  bool is_contiguous_nd() const;
};

PELLUCID_API Ref<TensorImpl> new_impl(DType dtype, IntArrayRef sizes);
/// The same view of the same storage, without history.
PELLUCID_API Ref<TensorImpl> alias_impl(const TensorImpl& t);
/// Row-major strides of `sizes`.
PELLUCID_API Dims contiguous_strides(IntArrayRef sizes);
/// Channels-last strides of [N, C, …] with one to three more dims.
PELLUCID_API Dims channels_last_strides(IntArrayRef sizes);
/// The product of sizes; throws ValueError where it passes 2^63 - 1, ShapeError where a size is
/// negative.
PELLUCID_API int64_t checked_numel(IntArrayRef sizes);

}  // namespace detail
}  // namespace pellucid
