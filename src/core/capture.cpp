#include "core/capture.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/allocator.h"
#include "base/central_heap.h"
#include "base/random.h"
#include "core/autograd_meta.h"
#include "core/capture_check.h"
#include "tensor/weights.h"

namespace pellucid::detail {
namespace {

// What no storage has: captures whose number is too large find all slots in `elsewhere_`.
constexpr uint32_t kNoTag = 1;

constexpr size_t kMostCalls = 65'536;
constexpr size_t kMostHeld = size_t{256} << 20;  // bytes that only the capture keeps alive

/// All captures of the process. One outlives its thread, for the sake of its pending tensors, and
/// serves another thread later.
struct Captures {
  std::mutex mutex;
  std::vector<Capture*> all, idle;
  static Captures& get() {
    static auto* const captures = [] {
      // What captured calls need is held after the captures are: its handlers come first.
      memory_stats();
      default_generator();
      held_bytes();
      pthread_atfork(hold_all, let_go_all, let_go_all);
      return new Captures;  // tensors may outlive static objects
    }();
    return *captures;
  }
  static void hold_all() {
    get().mutex.lock();
    for (Capture* c : get().all) c->lock();
  }
  static void let_go_all() {
    for (Capture* c : get().all) c->unlock();
    get().mutex.unlock();
  }
  Capture* take() {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      Capture* c = idle.back();
      idle.pop_back();
      return c;
    }
    return all.emplace_back(new Capture(all.size() + 1));
  }
  void put_back(Capture* c) {
    const std::lock_guard lock(mutex);
    idle.push_back(c);
  }
  /// Those whose calls may use a storage.
  std::vector<Capture*> users_of(const Storage& s) {
    const uint8_t user = s.user.load(std::memory_order_acquire);
    const std::lock_guard lock(mutex);
    if (user == kSeveral) return all;
    if (user == 0) return {};
    return {all[user - 1u]};
  }
};

}  // namespace

/// While it lives, the thread of a capture adds a call, and no other thread lets calls run.
class Capture::Turn {
 public:
  explicit Turn(Capture& c) : capture_(c) {
    c.adding_.exchange(true, std::memory_order_seq_cst);
    if (!c.stopped_.load(std::memory_order_seq_cst)) [[likely]]
      return;
    c.adding_.store(false, std::memory_order_release);
    c.mutex_.lock();
    waited_ = true;
  }
  ~Turn() {
    if (waited_)
      capture_.mutex_.unlock();
    else
      capture_.adding_.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;

 private:
  Capture& capture_;
  bool waited_ = false;
};

constinit thread_local bool notes_callers = false;
constinit thread_local bool recomputing = false;
constinit thread_local size_t memory_budget = 0;

constinit thread_local Capture* Capture::own_ = nullptr;

Capture::Capture(size_t number)
    : user_(static_cast<uint8_t>(std::min<size_t>(number, kSeveral))),
      tag_(number < (size_t{1} << (32 - kPlaceBits)) ? static_cast<uint32_t>(number << kPlaceBits)
                                                     : kNoTag) {}

Capture& Capture::take_own() {
  struct Own {
    Capture* capture = Captures::get().take();
    ~Own() {
      own_ = nullptr;
      Captures::get().put_back(capture);
    }
  };
  thread_local const Own own;
  own_ = own.capture;
  return *own_;
}

void Capture::lock() {
  mutex_.lock();
  if (this == own_) return;  // its thread is here, and adds nothing
  stopped_.store(true, std::memory_order_seq_cst);
  while (adding_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void Capture::unlock() {
  stopped_.store(false, std::memory_order_release);
  mutex_.unlock();
}

inline uint32_t Capture::slot_for(const CapturedView& v) {
  const uint32_t known = v.fresh ? kNone : slot_of(*v.storage);
  if (known == kNone) return new_slot(v);
  ++slots_[known].uses;
  return known;
}

uint32_t Capture::new_slot(const CapturedView& v) {
  Storage& s = *v.storage;
  uint32_t place = free_slot_;
  if (place == kNone) [[likely]] {
    place = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    free_slot_ = slots_[place].uses;
  }
  const bool fits = tag_ != kNoTag && place <= kPlace;
  uint32_t none = 0;
  if (v.fresh && fits) {
    s.slot.store(tag_ | place, std::memory_order_relaxed);
    s.refs.store(2, std::memory_order_relaxed);
    s.captured.store(1, std::memory_order_relaxed);
    s.user.store(user_, std::memory_order_relaxed);
  } else {
    note_user(s);
    // Of several captures that use a storage, the first finds its slot there.
    if (!fits || !s.slot.compare_exchange_strong(none, tag_ | place, std::memory_order_relaxed))
      elsewhere_.emplace(&s, place);
    s.refs.fetch_add(1, std::memory_order_relaxed);
    s.captured.fetch_add(1, std::memory_order_relaxed);
    if (s.data) held_bytes_ += s.bytes;
  }
  slots_[place] = {.storage = &s, .uses = 1, .writes = 0, .note = 0};
  return place;
}

uint32_t Capture::pending_writes(const Storage& s) const {
  const uint32_t slot = slot_of(s);
  return slot == kNone ? 0 : slots_[slot].writes;
}

void CapturedCall::make_tensors() {
  if (std::exchange(has_tensors, true)) return;
  const auto tensor = [&](CapturedView& v) {
    if (!v.storage) return Tensor();
    v.fresh = false;
    Ref<TensorImpl> impl = new_impl(v.dtype, sizes(v));
    impl->strides = strides(v);
    impl->offset = v.offset;
    impl->wrapped_number = v.wrapped_number;
    impl->hidden_layout = v.hidden_layout;
    impl->inference = v.inference;
    impl->storage = Ref<Storage>::share(v.storage);
    v.storage->captured.fetch_add(1, std::memory_order_relaxed);
    return Tensor(std::move(impl));
  };
  try {
    inputs.reserve(input_count());
    for (size_t i = 0; i < input_count(); ++i) inputs.emplace_back(tensor(views[i]));
    for (size_t k = 0; k < output_count; ++k) outputs[k] = tensor(views[input_count() + k]);
  } catch (...) {
    drop_tensors();
    throw;
  }
}

void CapturedCall::drop_tensors() noexcept {
  if (!std::exchange(has_tensors, false)) return;
  const auto drop = [](Tensor& t) {
    if (t.defined()) t.impl().storage->captured.fetch_sub(1, std::memory_order_release);
    t.reset();
  };
  for (Tensor& t : inputs) drop(t);
  for (Tensor& t : outputs) drop(t);
  inputs.clear();
}

void Capture::add(std::unique_ptr<CapturedCall> call) {
  bool full = false;
  {
    const Turn turn(*this);
    if (calls_.size() == calls_.capacity())  // before anything is counted
      calls_.reserve(std::max<size_t>(16, calls_.size() * 2));
    for (CapturedView& v : call->views)
      if (v.storage) v.slot = slot_for(v);
    for (Storage* s : call->writes) {
      ++slots_[slot_of(*s)].writes;
      s->writer.store(this, std::memory_order_release);
    }
    if (calls_.empty()) busy_captures.fetch_add(1, std::memory_order_relaxed);
    calls_.push_back(std::move(call));
    full = !forbidden_by_ && (calls_.size() >= kMostCalls ||
                              (held_bytes_ > std::max(held_limit_, kMostHeld) && holds_too_much()));
  }
  if (full) flush();
}

// So that whoever changes the storage asks no other capture.
void Capture::note_user(Storage& s) const {
  uint8_t user = s.user.load(std::memory_order_relaxed);
  while (user != user_ && !s.user.compare_exchange_weak(user, user == 0 ? user_ : kSeveral,
                                                        std::memory_order_relaxed))
    continue;
}

// Memory that the program let go is kept by calls that read it.
bool Capture::holds_too_much() {
  size_t bytes = 0;
  for (const Slot& slot : slots_)
    if (slot.storage && slot.storage->data && holders(*slot.storage) == 0)
      bytes += slot.storage->bytes;
  held_limit_ = held_bytes_ * 2;
  return bytes > kMostHeld;
}

namespace {

// Who "has still to write" what no call will ever make: whoever reads it gets an error.
Capture& discarded() {
  static auto* const capture = [] {
    auto* c = new Capture(SIZE_MAX);
    c->forbid_values("discarded");
    return c;
  }();
  return *capture;
}

}  // namespace

// Where a value is asked for, as far as it is known: " at FILE:LINE".
static std::string place_of_question() {
  const std::string line = line_now();
  return line.empty() ? "" : " at " + line;
}

void Capture::refuse_to_split() const {
  if (this != own_ || !whole_for_) return;
  PELLUCID_CHECK(false, ValueError,
                 "{}: the function asks for a value{}, which would split the program. Move item(), "
                 "printing and decisions by values out of it, or compile it without that.",
                 whole_for_, place_of_question());
}

// The capture is locked by this thread.
void Capture::refuse() {
  PELLUCID_CHECK(this != &discarded(), ValueError,
                 "this tensor was made while a function was traced or sealed, and has no values: "
                 "its calls were captured and not run.");
  if (give_up_ && this == own_) {
    const GiveUp give_up = std::move(give_up_);
    give_up("it asks for a value" + place_of_question());
    return;
  }
  PELLUCID_CHECK(false, ValueError,
                 "{}: the function asks for a value{}, but nothing runs while it is captured. "
                 "Move item(), printing and decisions by values out of it.",
                 forbidden_by_, place_of_question());
}

void Capture::forbid_values(const char* who, GiveUp give_up) {
  const std::lock_guard hold(*this);
  forbidden_by_ = who;
  give_up_ = std::move(give_up);
}

void Capture::allow_values() noexcept {
  const std::lock_guard hold(*this);
  allow_values_now();
}

void Capture::allow_values_now() noexcept {
  forbidden_by_ = nullptr;
  give_up_ = nullptr;
  versions_.clear();
  gradients_.clear();
  changed_.clear();
  live_numbers.clear();
  assumptions.clear();
  constants.clear();
}

void Capture::will_change(Storage& s) {
  if (changed_.insert(&s).second)
    versions_.emplace_back(Ref<Storage>::share(&s), s.version.load(std::memory_order_relaxed));
}

void Capture::will_change_gradient(const Tensor& leaf, const Tensor& before) {
  if (changed_.insert(&leaf.impl()).second) gradients_.emplace_back(leaf, before);
}

void Capture::restore() noexcept {
  for (const auto& [leaf, before] : gradients_) meta_of(leaf).grad = before;
  gradients_.clear();
  for (auto& [storage, version] : versions_)
    storage->version.store(version, std::memory_order_relaxed);
  versions_.clear();
  changed_.clear();
}

void Capture::discard() noexcept {
  restore();
  const std::lock_guard hold(*this);
  // Whoever still sees a result that was never made must not read it.
  if (!calls_.empty()) release_all(&discarded());
}

Ref<Storage> Capture::stand_in(size_t bytes) {
  Ref<Storage> s = pending_storage(bytes);
  s->writer.store(this, std::memory_order_release);
  return s;
}

Ref<Storage> pending_storage(size_t bytes) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (bytes >= kLarge) [[unlikely]]
    CentralHeap::get().check_possible(bytes);  // an error at the call, as without capture
  auto s = Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage))) Storage);
  s->bytes = bytes;
  s->category = current_memory_category();
  return s;
}

constinit std::atomic<int64_t> busy_captures{0};
constinit std::atomic<int64_t> forced_runs{0};

void run_users_elsewhere(const Storage& s, const Capture* own) {
  const uint8_t user = s.user.load(std::memory_order_acquire);
  if (user == 0 || (own && user == own->user() && user != kSeveral)) return;
  for (Capture* c : Captures::get().users_of(s))
    if (c != own) c->run_users(s);
}

}  // namespace pellucid::detail
