// Storages that captured calls still read or write (core/capture.h), as the tensor sees them.
#pragma once

#include "pellucid/detail/tensor_impl.h"

namespace pellucid::detail {

/// How many captures of the process have calls that did not run yet.
extern constinit std::atomic<int64_t> busy_captures;
/// Whether calls that write the storage were captured and did not run yet.
inline bool is_pending(const Storage& s) {
  return s.writer.load(std::memory_order_acquire) != nullptr;
}
/// How many references to the storage there are beside those of captures.
inline uint32_t holders(const Storage& s) {
  return s.refs.load(std::memory_order_acquire) - s.captured.load(std::memory_order_acquire);
}
/// Runs the captured calls that read or write a storage, on whatever thread they were made.
void run_users(const Storage& s);
/// To be called before a storage is changed other than by a captured call, before its bytes move,
/// and before the program gets a pointer to them.
inline void settle(const Storage& s) {
  if (s.captured.load(std::memory_order_acquire) != 0) [[unlikely]]
    run_users(s);
  bytes_change(const_cast<Storage&>(s));
}

}  // namespace pellucid::detail
