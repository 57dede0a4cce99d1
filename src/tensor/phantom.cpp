// The ledger of phantom storages, and the storages themselves.
#include "tensor/phantom.h"

#include <utility>

#include "pellucid/tensor.h"

namespace pellucid::detail {

constinit std::atomic<int> open_estimates{0};

namespace {
thread_local std::shared_ptr<MemoryLedger> ledger_of_thread;
}

const std::shared_ptr<MemoryLedger>& current_ledger() { return ledger_of_thread; }

std::shared_ptr<MemoryLedger> exchange_ledger(std::shared_ptr<MemoryLedger> ledger) {
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

Ref<Storage> phantom_storage(size_t bytes, bool with_values) {
  const MemoryCategory category = current_memory_category();
  const std::shared_ptr<MemoryLedger> ledger = current_ledger();
  auto release = [ledger, bytes, category, with_values](void* data) {
    if (with_values) ::operator delete(data);
    if (ledger) ledger->remove(bytes, category);
  };
  Ref<Storage> s =
      borrow_storage(with_values ? ::operator new(bytes) : nullptr, bytes, std::move(release));
  s->category = category;
  // As a storage of the allocator: gradients may be added into it, nobody else knows its address.
  s->borrowed = false;
  s->pointer_given_out = false;
  if (ledger) ledger->add(bytes, category);
  return s;
}

void require_values(const TensorImpl& t, std::string_view who) {
  PELLUCID_CHECK(!t.storage || has_values(t), NotImplementedError,
                 "{}: values are needed, but this tensor ({}{}) was made under EstimateGuard and "
                 "has only sizes. Make it again outside the guard.",
                 who, t.dtype, t.sizes);
}

}  // namespace pellucid::detail
