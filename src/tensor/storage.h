// What happens to a whole storage: it is shown to other libraries, grows, moves into memory that
// processes share, and is looked at by sizes and strides that come from elsewhere. Few storages are
// used so; what is known of that is kept in a table beside them (storage.cpp), and the others stay
// small.
#pragma once

#include <string_view>

#include "pellucid/tensor.h"

namespace pellucid::detail {

/// Keeps the bytes of a storage alive and in their place while something outside the library looks
/// at them: the buffer of an array, a capsule. It holds the storage, not a tensor: what the tensor
/// becomes later does not matter to whoever has the address.
class PELLUCID_API ExportedStorage {
 public:
  explicit ExportedStorage(Ref<Storage> storage);
  ~ExportedStorage();
  ExportedStorage(const ExportedStorage&) = delete;

 private:
  Ref<Storage> storage_;
};

/// Makes a storage at least `bytes` long; all tensors that look at it see the new place. Throws
/// ValueError, with nothing changed, where the memory is borrowed, shared or was exported.
PELLUCID_API void grow_storage(Storage& storage, size_t bytes);
/// Moves the bytes into a memory file that other processes can map; nothing where they are in one.
/// Throws ValueError where something outside looks at them now, IoError where the system refuses.
PELLUCID_API void share_storage(Storage& storage);
/// The descriptor of the memory file behind a storage, which stays the storage's; -1 where it is
/// not shared.
PELLUCID_API int shared_file_of(const Storage& storage);
/// The storage behind a memory file: the one of this process that maps it already, else a new
/// mapping. Takes the file over. Throws IoError where it has fewer than `bytes`.
PELLUCID_API Ref<Storage> open_shared_storage(int file, size_t bytes);

/// How many bytes a view of these sizes and strides reaches into its storage, 0 where it is empty.
/// Throws ValueError where sizes, strides or offset are negative or pass 2^63 bytes. `who` begins
/// the messages.
PELLUCID_API size_t reach_of(std::string_view who, DType dtype, int64_t offset, IntArrayRef sizes,
                             IntArrayRef strides);
/// A tensor over a part of a storage, without history. Throws ValueError where it would reach
/// beyond.
PELLUCID_API Ref<TensorImpl> view_of_storage(std::string_view who, Ref<Storage> storage,
                                             DType dtype, int64_t offset, IntArrayRef sizes,
                                             IntArrayRef strides);

/// Gives a tensor other sizes, row-major over the same storage from the same offset (PyTorch's
/// resize_). The storage grows where it is too small; new elements are not initialised.
PELLUCID_API void resize_tensor(const Tensor& t, IntArrayRef sizes);

}  // namespace pellucid::detail
