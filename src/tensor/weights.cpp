#include "tensor/weights.h"

#include <pthread.h>

#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/allocator.h"

namespace pellucid::detail {

constinit std::atomic<int64_t> most_held_bytes{kMostHeldBytes};
constinit thread_local CapturedWeights* captured_weights = nullptr;

namespace {

using kernels::PackedForm;

/// How a tensor looks at its storage.
struct View {
  explicit View(const TensorImpl& t)
      : dtype(t.dtype), offset(t.offset), sizes(t.sizes), strides(t.strides) {}
  bool operator==(const View& o) const {
    return dtype == o.dtype && offset == o.offset && sizes == o.sizes && strides == o.strides;
  }
  DType dtype;
  int64_t offset;
  Dims sizes, strides;
};

struct Held {
  Storage* storage;
  View view;
  std::shared_ptr<const PackedForm> form;
};
using Place = std::list<Held>::iterator;

/// What is known of a storage whose bytes did not change since.
struct Known {
  uint64_t ticket;
  std::vector<Place> forms;
};

bool drop_all() noexcept;

struct Table {
  Table() {
    set_memory_reclaim(drop_all);
    // The child of a fork must not find it locked by a thread that it does not have.
    pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                   [] { get().mutex.unlock(); });
  }
  std::mutex mutex;
  std::unordered_map<const Storage*, Known> of;
  std::list<Held> held;  // that was not used for longest first
  uint64_t tickets = 0;
  int64_t found = 0;
  std::atomic<int64_t> bytes{0};
  static Table& get() {
    static auto* const table = new Table;  // storages may outlive static objects
    return *table;
  }
  /// Takes a form from the list; the caller frees it when the mutex is free.
  void take(Place p, std::list<Held>& to) {
    bytes.fetch_sub(p->form->bytes(), std::memory_order_relaxed);
    to.splice(to.end(), held, p);
  }
};

// Memory has run out: what is held can be made again.
bool drop_all() noexcept {
  std::list<Held> dropped;
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  for (auto& [storage, known] : table.of) known.forms.clear();
  table.bytes.store(0, std::memory_order_relaxed);
  dropped.swap(table.held);
  return !dropped.empty();
}

}  // namespace

int64_t held_bytes() noexcept { return Table::get().bytes.load(std::memory_order_relaxed); }

int64_t held_found() noexcept {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  return table.found;
}

void drop_held(Storage& s) noexcept {
  std::list<Held> dropped;
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  s.notes.fetch_and(static_cast<uint8_t>(~Storage::kHeld), std::memory_order_relaxed);
  const auto known = table.of.find(&s);
  if (known == table.of.end()) return;
  for (const Place p : known->second.forms) table.take(p, dropped);
  table.of.erase(known);
}

HeldWeights::HeldWeights(const Tensor& weight, Tensor (*ordered)(const Tensor&), bool may_keep)
    : Weights(nullptr), weight_(weight), captured_(captured_weights_of(weight)), ordered_(ordered) {
  if (captured_) captured_->held_bytes = 0;
  Storage* const s = captured_  ? captured_->storage
                     : may_keep ? weight.impl().storage.get()
                                : nullptr;
  if (s && !s->borrowed && !s->deleter && !s->pointer_given_out()) storage_ = s;
}

const void* HeldWeights::values() const {
  if (!row_major_.defined()) row_major_ = ordered_(weight_);
  return row_major_.raw_data();
}

std::shared_ptr<const PackedForm> HeldWeights::find_form(const Fits& fits) const {
  if (!storage_) return nullptr;
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  const auto [at, first_use] = table.of.try_emplace(storage_);
  Known& known = at->second;
  if (first_use) {
    known.ticket = ++table.tickets;
    storage_->notes.fetch_or(Storage::kHeld, std::memory_order_relaxed);
    return nullptr;
  }
  const View view(weight_.impl());
  for (const Place p : known.forms) {
    if (!(p->view == view) || !fits(*p->form)) continue;
    table.held.splice(table.held.end(), table.held, p);
    ++table.found;
    if (captured_) captured_->held_bytes = p->form->bytes();
    return p->form;
  }
  ticket_ = known.ticket;
  return nullptr;
}

void HeldWeights::keep(std::shared_ptr<const PackedForm> form) const {
  const int64_t most = most_held_bytes.load(std::memory_order_relaxed);
  if (ticket_ == 0 || form->bytes() > most) return;
  std::list<Held> dropped, added;
  added.push_back({storage_, View(weight_.impl()), std::move(form)});
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  const auto at = table.of.find(storage_);
  // Somebody wrote the weights meanwhile: the form may have the bytes from before.
  if (at == table.of.end() || at->second.ticket != ticket_) return;
  at->second.forms.reserve(at->second.forms.size() + 1);
  const int64_t bytes = added.front().form->bytes();
  while (table.bytes.load(std::memory_order_relaxed) + bytes > most) {
    const Place oldest = table.held.begin();
    std::erase(table.of.find(oldest->storage)->second.forms, oldest);
    table.take(oldest, dropped);
  }
  table.bytes.fetch_add(bytes, std::memory_order_relaxed);
  table.held.splice(table.held.end(), added);
  at->second.forms.push_back(std::prev(table.held.end()));
  if (captured_) captured_->held_bytes = bytes;
}

}  // namespace pellucid::detail
