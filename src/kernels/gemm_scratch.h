// Scratch memory of kernels, from the caching allocator: a steady loop of the same work maps
// nothing new.
#pragma once

#include <cstdint>

#include "base/allocator.h"

namespace pellucid::kernels {

/// A block of memory, aligned to 64 bytes and uninitialised, until the end of the scope; 0 bytes
/// cost nothing.
class Scratch {
 public:
  explicit Scratch(int64_t bytes, MemoryCategory category = MemoryCategory::Temporary)
      : bytes_(static_cast<size_t>(bytes)),
        category_(category),
        data_(bytes == 0 ? nullptr : allocate(bytes_, category)) {}
  ~Scratch() {
    if (data_ != nullptr) deallocate(data_, bytes_, category_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  size_t bytes_;
  MemoryCategory category_;
  void* data_;
};

}  // namespace pellucid::kernels
