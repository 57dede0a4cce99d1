// The ledger of phantom storages, and the storages themselves.
#include "tensor/phantom.h"

#include <utility>

#include "base/allocator.h"
#include "pellucid/tensor.h"
#include "recorder/block_category.h"
#include "tensor/memory_category.h"

namespace pellucid::detail {

namespace {
thread_local std::shared_ptr<MemoryLedger> ledger_of_thread;
}

const std::shared_ptr<MemoryLedger>& current_ledger() { return ledger_of_thread; }

std::shared_ptr<MemoryLedger> exchange_ledger(std::shared_ptr<MemoryLedger> ledger) {
  set_mode(kEstimate, ledger != nullptr);
  return std::exchange(ledger_of_thread, std::move(ledger));
}

void MemoryLedger::add(size_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  now_.total += static_cast<int64_t>(bytes);
  now_.by_category[static_cast<size_t>(category)] += static_cast<int64_t>(bytes);
  if (now_.total > peak_.total) peak_ = now_;
}

void MemoryLedger::remove(size_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  now_.total -= static_cast<int64_t>(bytes);
  now_.by_category[static_cast<size_t>(category)] -= static_cast<int64_t>(bytes);
}

void MemoryLedger::touch(int64_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  if (now_.total + bytes <= peak_.total) return;
  peak_ = now_;
  peak_.total += bytes;
  peak_.by_category[static_cast<size_t>(category)] += bytes;
}

MemorySnapshot MemoryLedger::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

MemorySnapshot MemoryLedger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void MemoryLedger::restart_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = now_;
}

namespace {

// What a phantom storage does in the end; it knows what it is counted as.
struct PhantomRelease {
  std::shared_ptr<MemoryLedger> ledger;
  size_t bytes;
  MemoryCategory category;
  bool with_values;
  void operator()(void* data) const {
    if (with_values) ::operator delete(data);
    if (ledger) ledger->remove(bytes, category);
  }
};

}  // namespace

Ref<Storage> phantom_storage(size_t bytes, bool with_values) {
  const MemoryCategory category = current_memory_category();
  const std::shared_ptr<MemoryLedger>& ledger = current_ledger();
  Ref<Storage> s = borrow_storage(with_values ? ::operator new(bytes) : nullptr, bytes,
                                  PhantomRelease{ledger, bytes, category, with_values});
  s->category = category;
  // As a storage of the allocator: gradients may be added into it, nobody else knows its address.
  s->borrowed = false;
  s->notes = 0;
  if (ledger) ledger->add(bytes, category);
  return s;
}

void set_memory_category(Storage& s, MemoryCategory category) noexcept {
  if (s.category == category) return;
  if (s.deleter) {
    if (auto* release = s.deleter->target<PhantomRelease>()) {
      if (release->ledger) {
        release->ledger->remove(s.bytes, s.category);
        release->ledger->add(s.bytes, category);
      }
      release->category = category;
    }
  } else if (!s.borrowed) {
    change_memory_category(s.bytes, s.category, category);
    profile::record_category(s.data, s.bytes, category);
  }
  s.category = category;
}

void require_values(const TensorImpl& t, std::string_view who) {
  PELLUCID_CHECK(!t.storage || has_values(t), NotImplementedError,
                 "{}: values are needed, but this tensor ({}{}) was made under EstimateGuard and "
                 "has only sizes. Make it again outside the guard.",
                 who, t.dtype, t.sizes);
}

}  // namespace pellucid::detail
