// What is done for every event. This runs between kernels, with cold caches, so what counts is how
// few lines of code and data it touches: one look-up of (what, where), one event, one open scope.
#include <sys/mman.h>
#include <x86intrin.h>

#include <cstring>
#include <exception>

#include "recorder/block_category.h"
#include "recorder/recorder_state.h"
#include "recorder/sampler.h"

namespace pellucid::profile {

namespace detail {
constinit std::array<std::atomic<uint32_t>, kGenerations> generations{};
}

namespace {

// Inside such scopes the library calls itself: the program's line is that of the scope.
constexpr bool passes_place_on(uint32_t kind) {
  constexpr auto bit = [](EventKind k) { return 1u << (1 + static_cast<uint32_t>(k)); };
  return (bit(EventKind::Composite) | bit(EventKind::Backward) | bit(EventKind::Engine) |
          bit(EventKind::Optimizer)) >>
             kind &
         1;
}

// Where nothing is written down, whoever counts must know at once which line left a node of the
// tape: backward work belongs to it. The latest million nodes are remembered; a node that was
// created earlier counts for the line of backward(). In a trace the collector does this, but for
// calls that are kept and may never run, or run as a part of others.
class NodePlaces {
 public:
  void remember(uint64_t node, uint64_t place) noexcept {
    Cell* cells = cells_.load(std::memory_order_acquire);
    if (!cells && !(cells = make())) return;
    Cell& c = cells[node % kCells];
    c.node.store(0, std::memory_order_relaxed);
    c.place.store(place, std::memory_order_release);
    c.node.store(node, std::memory_order_release);
  }
  /// Places are those of one recording.
  void forget() noexcept {
    if (Cell* cells = cells_.load()) madvise(cells, kCells * sizeof(Cell), MADV_DONTNEED);
  }
  /// 0 where it is not known.
  uint64_t find(uint64_t node) const noexcept {
    const Cell* cells = cells_.load(std::memory_order_acquire);
    if (!cells) return 0;
    const Cell& c = cells[node % kCells];
    if (c.node.load(std::memory_order_acquire) != node) return 0;
    const uint64_t place = c.place.load(std::memory_order_acquire);
    return c.node.load(std::memory_order_relaxed) == node ? place : 0;
  }

 private:
  static constexpr size_t kCells = size_t{1} << 20;
  struct Cell {
    std::atomic<uint64_t> node{0}, place{0};
  };
  // Pages of zeros, which take memory only where they are used; never given back.
  [[gnu::noinline]] Cell* make() noexcept {
    void* p = mmap(nullptr, kCells * sizeof(Cell), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    auto* fresh = static_cast<Cell*>(p);
    Cell* known = nullptr;
    if (cells_.compare_exchange_strong(known, fresh)) return fresh;
    munmap(p, kCells * sizeof(Cell));
    return known;
  }
  std::atomic<Cell*> cells_{nullptr};
};
constinit NodePlaces g_node_places;

constinit thread_local uint64_t t_from = 0;  // see FromPlace

inline uint64_t place_now(const ThreadLog& l) noexcept {
  if (t_from) [[unlikely]]
    return t_from;
  if (const OpenScope* s = l.innermost(); s && passes_place_on(s->kind)) return s->place;
  return find_place();
}

// The line that a scope counts for.
inline uint64_t place_for(const ThreadLog& l, EventKind kind, uint64_t link) noexcept {
  if (kind == EventKind::Backward)
    if (const uint64_t place = g_node_places.find(link)) return place;
  return place_now(l);
}

uint32_t module_now(const ThreadLog& l) noexcept {
  const OpenScope* s = l.innermost();
  return s ? s->module : 0;
}

constexpr uint16_t raw_kind(EventKind kind) {
  return static_cast<uint16_t>(1 + static_cast<unsigned>(kind));
}

inline void open_scope(ThreadLog& l, const void* owner, EventKind kind, uint32_t call,
                       uint64_t place, uint32_t module, uint64_t link, uint32_t inputs) noexcept {
  if (l.depth >= ThreadLog::kMostOpen) [[unlikely]] {
    ++l.depth;
    ++l.header().dropped;
    return;
  }
  OpenScope& s = l.open[l.depth++];
  s.owner = owner;
  s.place = place;
  s.event = nullptr;
  s.module = module;
  s.call = call;
  s.kind = raw_kind(kind);
  s.counts_usage = 0;
  if (l.mode == Mode::Trace) [[likely]] {
    RawEvent* e = l.append();
    if (!e) [[unlikely]]
      return;
    s.event = e;
    s.lap = l.lap;
    e->rest = raw_kind(kind);
    e->link = static_cast<uint32_t>(link);
    e->call = call;
    e->inputs = inputs;
    e->begin = l.last = __rdtsc();
    l.publish(e);
  } else if (l.mode == Mode::Count) {
    l.count(call, static_cast<uint8_t>(s.kind));
  } else {
    note_innermost(call);
    ++l.header().scopes;
  }
}

// The number of a call of `what` from a place, remembered under the key that found nothing.
uint32_t define_call(ThreadLog& l, EventKind kind, uint32_t what, uint64_t place,
                     uint64_t key) noexcept {
  const uint32_t site = site_of(place);
  const uint64_t pair = (uint64_t{what} << 4 | static_cast<uint64_t>(kind)) << 32 | site;
  const uint32_t call = number(&ThreadLog::pairs, &Recorder::pairs, mix(0, pair), "call", [&] {
    return fmt::format("\"kind\":{},\"what\":{},\"line\":{}", static_cast<int>(kind), what, site);
  });
  try {
    if (call) l.calls.add(key, call, kind == EventKind::Module ? what : 0);
  } catch (const std::exception&) {
    // No memory for the table: the next call is looked up the long way again.
  }
  return call;
}

// Where a call is found. A module is another one below another parent.
inline uint64_t key_of(const ThreadLog& l, EventKind kind, uint64_t hash, uint64_t place) noexcept {
  return kind == EventKind::Module ? mix(hash, place, module_now(l)) : mix(hash, place);
}

void begin_defined(ThreadLog& l, const void* owner, EventKind kind, uint32_t what, uint64_t hash,
                   uint64_t link, uint32_t inputs) noexcept {
  const uint64_t place = place_for(l, kind, link), key = key_of(l, kind, hash, place);
  uint32_t call = l.calls.find(key);
  if (call == 0) call = define_call(l, kind, what, place, key);
  open_scope(l, owner, kind, call, place, kind == EventKind::Module ? what : module_now(l), link,
             inputs);
  if (l.usage && (UsageScopes::counts(kind) || l.depth == 1)) count_usage(owner);
}

}  // namespace

LaterPlace place_for_later(uint64_t node) noexcept {
  const ThreadLog* l = log();
  if (!l) return {};
  const uint64_t place = place_now(*l);
  if (node) g_node_places.remember(node, place);
  return {place, l->recording};
}

FromPlace::FromPlace(LaterPlace from) noexcept : outer_(t_from) {
  const ThreadLog* l = from.recording && recording() ? log() : nullptr;
  t_from = l && l->recording == from.recording ? from.place : 0;
}

FromPlace::~FromPlace() { t_from = outer_; }

bool begin_call(const void* owner, EventKind kind, uint64_t hash, uint32_t inputs,
                uint64_t link) noexcept {
  ThreadLog* l = log();
  if (!l) [[unlikely]]
    return true;
  const uint64_t place = place_for(*l, kind, link);
  const NumberTable::Cell* cell = l->calls.find_cell(key_of(*l, kind, hash, place));
  if (!cell || (l->usage && kind != EventKind::Op)) [[unlikely]]
    return false;
  open_scope(*l, owner, kind, cell->value, place, cell->more ? cell->more : module_now(*l), link,
             inputs);
  return true;
}

void begin_new_call(const void* owner, EventKind kind, uint64_t hash, uint32_t inputs,
                    uint32_t what, uint64_t link) noexcept {
  if (ThreadLog* l = log()) begin_defined(*l, owner, kind, what, hash, link, inputs);
}

void count_usage(const void* owner) noexcept {
  ThreadLog* l = t_log;
  if (!l || !l->usage || l->depth == 0 || l->depth > ThreadLog::kMostOpen) return;
  OpenScope& s = l->open[l->depth - 1];
  if (s.owner != owner || !s.event) return;
  s.counts_usage = 1;
  l->usage->begin(s.event->begin);
}

void begin_scope(const void* owner, EventKind kind, uint32_t what, uint64_t link) noexcept {
  ThreadLog* l = log();
  if (!l) return;
  const uint64_t hash = mix(0x5c0e, uint64_t{what} << 8 | raw_kind(kind));
  begin_defined(*l, owner, kind, what, hash, link, 0);
}

namespace {

// Ends the scopes above one that ends, left without a word: by a jump, or by an owner that ended
// while nothing was recorded. False where there is no such scope.
[[gnu::noinline]] bool end_inner_scopes(ThreadLog& l, const void* owner) noexcept {
  int at = l.depth - 1;
  while (at >= 0 && l.open[at].owner != owner) --at;
  if (at < 0) return false;
  const uint64_t now = __rdtsc();
  for (int i = l.depth - 1; i > at; --i) {
    if (l.open[i].counts_usage) l.usage->end(l.header().thread);
    if (l.open[i].event) l.finish(l.open[i], now, 0, 0);
  }
  l.depth = at + 1;
  return true;
}

}  // namespace

void end_scope(const void* owner, uint64_t link, bool threw) noexcept {
  ThreadLog* l = t_log;
  if (!l || l->depth == 0) [[unlikely]]
    return;
  if (l->depth > ThreadLog::kMostOpen) [[unlikely]] {
    --l->depth;
    return;
  }
  if (l->open[l->depth - 1].owner != owner && !end_inner_scopes(*l, owner)) [[unlikely]]
    return;
  const OpenScope& s = l->open[--l->depth];
  if (s.counts_usage) [[unlikely]]
    l->usage->end(l->header().thread);
  if (s.event) [[likely]] {
    l->finish(s, l->last = __rdtsc(), static_cast<uint32_t>(link), threw ? kRawThrew : 0);
  } else if (l->mode != Mode::Trace) {
    if (link && s.kind == raw_kind(EventKind::Op)) g_node_places.remember(link, s.place);
    if (l->mode == Mode::Count) return;
    const OpenScope* outer = l->innermost();
    note_innermost(outer ? outer->call : 0);
  }
}

namespace {

// Reading the clock is a good part of what an event costs. Inside an op, or between the ops that
// the library calls by itself, the latest stamp is near enough: the order of blocks is that of the
// log, or of their numbers where several threads have logs.
inline uint64_t block_stamp(const ThreadLog& l) noexcept {
  const OpenScope* s = l.innermost();
  const bool near = s && (s->kind == raw_kind(EventKind::Op) || passes_place_on(s->kind));
  return near ? l.last : __rdtsc();
}

// A block is numbered after it was taken and before it is given back, so whatever hands it from
// thread to thread lies between its two numbers.
constinit std::atomic<uint32_t> g_block_number{0};

void write_block(ThreadLog& l, uint64_t stamp, const void* p, size_t bytes, MemoryCategory category,
                 RawKind kind) noexcept {
  RawEvent* e = l.append();
  if (!e) [[unlikely]]
    return;
  e->rest = RawEvent::pack(kind, static_cast<uint8_t>(category), reinterpret_cast<uint64_t>(p));
  e->link = static_cast<uint32_t>(bytes);
  e->call = static_cast<uint32_t>(bytes >> 32);
  e->inputs = l.numbers_blocks.load(std::memory_order_relaxed)
                  ? 1 + g_block_number.fetch_add(1, std::memory_order_relaxed)
                  : 0;
  e->begin = stamp;
  l.publish(e);
}

[[gnu::noinline]] void write_shared_block(const void* p, size_t bytes, MemoryCategory category,
                                          RawKind kind) noexcept {
  if (const SharedLog shared = shared_log(); shared.log)
    write_block(*shared.log, __rdtsc(), p, bytes, category, kind);
}

// Returns false where it is the recorder's own block.
bool append_block(const void* p, size_t bytes, MemoryCategory category, RawKind kind) noexcept {
  if (t_inside && !t_ended) [[unlikely]]
    return false;
  ThreadLog* l = t_ended ? nullptr : log();
  if (l) [[likely]]
    write_block(*l, block_stamp(*l), p, bytes, category, kind);
  else
    write_shared_block(p, bytes, category, kind);
  return true;
}

}  // namespace

void forget_numbers() noexcept {
  g_block_number.store(0, std::memory_order_relaxed);
  g_node_places.forget();
}

void record_block(void* p, size_t bytes, MemoryCategory category, bool is_free) noexcept {
  if (!append_block(p, bytes, category, is_free ? kRawFree : kRawAllocation)) [[unlikely]]
    return;
  if (!is_free) {
    std::atomic<uint32_t>& g = detail::generation_of(p);
    g.store(g.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

void record_category(void* block, size_t bytes, MemoryCategory category) noexcept {
  if (detail::blocks_recorded.load(std::memory_order_relaxed))
    append_block(block, bytes, category, kRawCategory);
}

void record_use(const void* block, BlockRole role, uint32_t name) noexcept {
  if (block && detail::blocks_recorded.load(std::memory_order_relaxed))
    append_block(block, name, static_cast<MemoryCategory>(role), kRawUse);
}

uint32_t innermost_module() noexcept {
  const ThreadLog* l = log();
  return l ? module_now(*l) : 0;
}

// Steps are scopes of the thread that marks them.
namespace {
constinit thread_local bool t_in_step = false;
constinit std::atomic<bool> g_marks_steps{false};  // then optimisers' steps are none

// A step ended: the next one may be that whose blocks are recorded, or this one was.
void count_step() noexcept {
  if (!detail::blocks_recorded.load(std::memory_order_relaxed)) return;
  Recorder& r = Recorder::get();
  const int next = 2 + r.steps_ended.fetch_add(1, std::memory_order_relaxed);
  detail::uses_recorded.store(next == r.options.chosen_step, std::memory_order_relaxed);
}

bool innermost_is_optimizer() noexcept {
  const ThreadLog* l = t_log;
  const OpenScope* s = l ? l->innermost() : nullptr;
  return s && s->kind == raw_kind(EventKind::Optimizer);
}
}  // namespace

void forget_steps() noexcept { g_marks_steps.store(false, std::memory_order_relaxed); }

void end_step() {
  if (t_in_step) {
    end_scope(&t_in_step);
    count_step();
  }
  t_in_step = false;
}

void begin_step() {
  end_step();
  if (!recording()) return;
  t_in_step = true;
  g_marks_steps.store(true, std::memory_order_relaxed);
  begin_scope(&t_in_step, EventKind::Step, scope_signature(EventKind::Step, "step"));
}

}  // namespace pellucid::profile

namespace pellucid {

void RecordFunction::begin(std::string_view name, profile::EventKind kind) noexcept {
  begun_ = true;
  exceptions_ = std::uncaught_exceptions();
  const uint64_t hash = profile::scope_hash(kind, name);
  if (!profile::begin_call(this, kind, hash)) [[unlikely]]
    profile::begin_new_call(this, kind, hash, 0, profile::scope_signature(kind, name));
}

void RecordFunction::end() noexcept {
  const bool ends_step = profile::innermost_is_optimizer();
  profile::end_scope(this, 0, std::uncaught_exceptions() > exceptions_);
  if (ends_step && !profile::g_marks_steps.load(std::memory_order_relaxed)) profile::count_step();
}

}  // namespace pellucid
