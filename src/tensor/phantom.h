// Phantom storages: they have a size and no bytes. Under EstimateGuard the results of ops get one,
// and a ledger counts their bytes as the allocator would count real ones.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "pellucid/detail/tensor_impl.h"
#include "pellucid/memory_snapshot.h"
#include "tensor/mode.h"
#include "tensor/pending.h"

namespace pellucid::detail {

/// Bytes of phantom storages from their creation to their destruction, on whatever thread.
class MemoryLedger {
 public:
  void add(size_t bytes, MemoryCategory category);
  void remove(size_t bytes, MemoryCategory category);
  /// What is taken and given back at once: only the peak can tell.
  void touch(int64_t bytes, MemoryCategory category);
  MemorySnapshot now() const;
  MemorySnapshot peak() const;
  /// Lets the peak start again from what is there now.
  void restart_peak();

 private:
  mutable std::mutex mutex_;
  MemorySnapshot now_, peak_;
};

/// The ledger of this thread's innermost guard; empty where there is none.
const std::shared_ptr<MemoryLedger>& current_ledger();
/// Makes `ledger` this thread's; returns the one before.
std::shared_ptr<MemoryLedger> exchange_ledger(std::shared_ptr<MemoryLedger> ledger);
inline bool estimating() { return (modes & kEstimate) != 0; }

/// A storage of `bytes` in this thread's ledger and memory category, with memory behind it only if
/// asked for.
Ref<Storage> phantom_storage(size_t bytes, bool with_values = false);
/// Whether the storage was made by phantom_storage.
inline bool is_counted(const Storage& s) { return s.deleter && !s.borrowed; }
/// Whether the tensor's elements can be read; those of a pending tensor are computed then. Another
/// thread may be about to do so, so the pointer is looked at only where nothing is pending.
inline bool has_values(const TensorImpl& t) {
  return t.storage && (is_pending(*t.storage) || t.storage->data || t.storage->bytes == 0);
}
/// Throws NotImplementedError, which begins with `who`, for a tensor of a phantom storage.
void require_values(const TensorImpl& t, std::string_view who);

}  // namespace pellucid::detail
