#include "core/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/allocator.h"
#include "base/random.h"

namespace pellucid::detail {

namespace {
using graph::kNone;
}

StorageNumbers::StorageNumbers(const Capture& capture, std::span<CapturedCall* const> calls,
                               std::vector<uint64_t>* prefixes)
    : capture_(capture), by_slot_(capture.slot_count(), kNone) {
  storages_.reserve(capture.slot_count());
  seen_later_.reserve(capture.slot_count());
  Hash128 h, kept;  // of the calls; of the storages
  h.add(graph::PassSet::current().bits(), static_cast<uint64_t>(least_fused));
  h.add(memory_budget, calls.size());
  const auto add = [&](const CapturedView& v) {
    const Storage& s = *v.storage;
    const Capture::Use use = capture.use_of(v);
    const bool seen_later = holders(s) > 0 || use.later;
    kept.add(s.bytes, uint64_t{static_cast<uint8_t>(s.category)} << 2 |
                          uint64_t{s.data != nullptr} << 1 | uint64_t{use.written && seen_later});
    storages_.push_back(v.storage);
    seen_later_.push_back(seen_later);
    return static_cast<uint32_t>(storages_.size() - 1);
  };
  for (const CapturedCall* call : calls) {
    h.add(call->form.a, call->form.b);
    uint64_t words[2] = {0, 0};  // four numbers
    unsigned place = 0;
    for (const CapturedView& v : call->views) {
      uint64_t number = kNone;
      if (v.storage) {
        uint32_t& known = by_slot_[v.slot];
        if (known == kNone) known = add(v);
        number = known;
      }
      words[place / 2] |= number << place % 2 * 32;
      if (++place < 4) continue;
      h.add(words[0], words[1]);
      words[0] = words[1] = place = 0;
    }
    if (place > 0) h.add(words[0], words[1]);
    if (prefixes) prefixes->push_back(h.a);
  }
  h.add(kept.a, kept.b);
  key_ = {h.a, h.b};
}

uint32_t StorageNumbers::of(const Storage& s) const {
  const uint32_t slot = capture_.slot_of(s);
  return slot < by_slot_.size() ? by_slot_[slot] : kNone;
}

graph::Graph graph_of(std::span<CapturedCall* const> calls, const StorageNumbers& numbers) {
  graph::Graph g;
  for (size_t i = 0; i < numbers.storages().size(); ++i) {
    const Storage* const s = numbers.storages()[i];
    g.storages.push_back({.bytes = s->bytes,
                          .category = s->category,
                          .external = s->data != nullptr,
                          .live_out = numbers.seen_later(i)});
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const CapturedCall& call = *calls[i];
    const auto add_value = [&](const CapturedView& v) {
      g.values.push_back({.storage = numbers[v],
                          .dtype = v.dtype,
                          .number = v.wrapped_number,
                          .hidden_layout = v.hidden_layout,
                          .offset = v.offset,
                          .sizes = call.sizes(v),
                          .strides = call.strides(v)});
      return static_cast<uint32_t>(g.values.size() - 1);
    };
    graph::Node n{.op = &call.op,
                  .attrs = call.attrs.view(),
                  .call = static_cast<uint32_t>(i),
                  .in_place = call.in_place,
                  .default_dtype = call.default_dtype,
                  .tracked = call.tracked,
                  .unique = call.unique,
                  .checks = call.checks,
                  .seed = call.seed,
                  .random_offset = call.random_offset};
    for (size_t k = 0; k < call.views.size(); ++k) {
      const CapturedView& v = call.views[k];
      if (k < call.input_count())
        n.inputs.push_back(v.storage ? graph::Use{add_value(v), g.storages[numbers[v]].writes}
                                     : graph::Use{});
      else
        n.outputs.push_back(v.storage ? add_value(v) : kNone);
    }
    for (const Storage* s : call.writes) {
      const auto v = std::find_if(call.views.begin(), call.views.end(),
                                  [&](const CapturedView& view) { return view.storage == s; });
      const uint32_t number = numbers[*v];
      if (std::find(n.writes.begin(), n.writes.end(), number) != n.writes.end()) continue;
      n.writes.push_back(number);
      ++g.storages[number].writes;
    }
    g.nodes.push_back(std::move(n));
  }
  return g;
}

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// Gradients that somebody sees after a program which has used them to update parameters.
int64_t gradients_left(const graph::Graph& g) {
  std::vector<bool> counted(g.storages.size(), false);
  int64_t bytes = 0;
  for (const graph::Node& n : g.nodes) {
    const bool updates = std::any_of(n.writes.begin(), n.writes.end(), [&](uint32_t s) {
      return g.storages[s].category == MemoryCategory::Parameter;
    });
    if (!updates) continue;
    for (const graph::Use& in : n.inputs) {
      if (in.value == kNone) continue;
      const uint32_t s = g.values[in.value].storage;
      const graph::Storage& storage = g.storages[s];
      if (counted[s] || storage.external || !storage.live_out || storage.writes == 0) continue;
      counted[s] = true;
      bytes += static_cast<int64_t>(storage.bytes);
    }
  }
  return bytes;
}

}  // namespace

ReplayProgram::ReplayProgram(std::span<CapturedCall* const> calls, const StorageNumbers& numbers,
                             const graph::AfterPass& after)
    : graph_(graph_of(calls, numbers)), set_(graph::PassSet::current()) {
  const Clock::time_point begun = Clock::now();
  if (after) after({.name = "capture", .changed = 1}, graph_);
  passes_ = graph::optimize(graph_, set_, memory_budget, after);
  for (graph::Node& n : graph_.nodes) {
    attrs_.emplace_back().assign(n.attrs);
    n.attrs = attrs_.back().view();
  }
  passes_seconds_ = seconds_since(begun);
}

std::unique_ptr<Frame> ReplayProgram::make_frame(std::span<void* const> addresses) {
  const Clock::time_point begun = Clock::now();
  auto frame = std::make_unique<Frame>(graph_, addresses, set_, true);
  double none = 0;
  frame_seconds_.compare_exchange_strong(none, seconds_since(begun));
  return frame;
}

std::unique_ptr<Frame> ReplayProgram::take(std::span<CapturedCall* const> calls,
                                           std::span<void* const> addresses) {
  std::unique_ptr<Frame> frame;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      frame = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  for (const bool again : {false, true}) {
    if (!frame) frame = make_frame(addresses);
    if (frame->take_parameters(calls, addresses) || again) break;
    frame.reset();
  }
  return frame;
}

void ReplayProgram::put_back(std::unique_ptr<Frame> frame) {
  constexpr size_t kMostIdle = 8;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(frame));
}

void ReplayProgram::run(std::span<CapturedCall* const> calls, const StorageNumbers& numbers,
                        const std::function<void(Storage&)>& let_go, std::vector<bool>& ran) {
  const std::span<Storage* const> storages = numbers.storages();
  std::vector<void*> addresses(graph_.storages.size());
  for (size_t s = 0; s < storages.size(); ++s) {
    const graph::Storage& storage = graph_.storages[s];
    if (storage.external || storage.live_out) addresses[s] = storages[s]->data;
  }
  Frame::Outside outside{[&](uint32_t s) {
    return storages[s]->data = allocate(storages[s]->bytes, storages[s]->category);
  }};
  outside.storages = storages;
  if (let_go) outside.let_go = [&](uint32_t s) { let_go(*storages[s]); };
  std::unique_ptr<Frame> frame = take(calls, addresses);
  size_t done = 0;
  try {
    const AutoGradMode off(false);
    frame->run(addresses, outside, done);
  } catch (...) {
    hand_over(*frame, done, storages, ran);
    throw;
  }
  ran.assign(calls.size(), true);
  put_back(std::move(frame));
}

// A kernel threw. The results inside that exist become memory of the captured tensors, for the
// calls that did not run.
void ReplayProgram::hand_over(Frame& frame, size_t done, std::span<Storage* const> storages,
                              std::vector<bool>& ran) const {
  const std::shared_ptr<Frame::Arena> arena = frame.take_arena();
  std::vector<uint32_t> original(graph_.storages.size());  // that a repeated result stands for
  std::iota(original.begin(), original.end(), 0u);
  for (const auto& [again, of] : graph_.repeats) original[again] = of;
  const auto give = [&](uint32_t from, uint32_t to) {
    void* const at = frame.address(from);
    if (to >= storages.size()) return;  // a pass made it: no captured call does
    if (!at || storages[to]->data || graph_.storages[from].external) return;
    storages[to]->data = at;
    storages[to]->borrowed = true;
    storages[to]->deleter = std::make_unique<std::function<void(void*)>>([arena](void*) {});
  };
  // A result that is made again and was not yet has lost its memory: its call runs once more.
  std::vector<bool> executed(ran.size(), true), in_graph(ran.size(), false);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    in_graph[graph_.nodes[i].call] = true;
    if (i >= done) executed[graph_.nodes[i].call] = false;
  }
  for (size_t c = 0; c < ran.size(); ++c) executed[c] = executed[c] && in_graph[c];
  for (const graph::Graph::Tie& tie : graph_.ties) {
    const bool all = std::all_of(tie.begin(), tie.end(),
                                 [&](uint32_t c) { return executed[c] || !in_graph[c]; });
    for (const uint32_t c : tie) executed[c] = all, in_graph[c] = true;
  }
  for (size_t i = done; i-- > 0;)  // the last first: that is the one whose memory is still there
    if (executed[graph_.nodes[i].call])
      for (const uint32_t s : graph_.nodes[i].writes) give(s, original[s]);
  for (size_t c = 0; c < ran.size(); ++c) ran[c] = executed[c] || !in_graph[c];
  for (const graph::Merge& m : graph_.merges) {
    ran[m.call] = executed[m.into] || !in_graph[m.into];
    if (executed[m.into])
      for (const auto& [instead_of, s] : m.storages) give(s, instead_of);
  }
}

void ReplayProgram::replay(std::span<void* const> addresses, const Frame::Outside& outside,
                           const PhiloxRange& traced, const PhiloxRange& now) {
  std::unique_ptr<Frame> frame = take({}, addresses);
  frame->take_random(traced, now);
  size_t done = 0;
  const AutoGradMode off(false);
  try {
    frame->run(addresses, outside, done);
  } catch (...) {
    frame->take_arena();
    throw;
  }
  put_back(std::move(frame));
}

void ReplayProgram::explain(Explanation& e) {
  {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      const std::vector<void*> addresses(graph_.storages.size(), nullptr);
      idle_.push_back(make_frame(addresses));
    }
    idle_.back()->explain(e);
  }
  e.made_seconds += passes_seconds_ + frame_seconds_.load();
  e.gradient_bytes_left += gradients_left(graph_);
  for (const graph::PassResult& p : passes_)
    e.passes.push_back({p.name, p.seconds, p.nodes_before, p.nodes_after, p.changed});
}

ProgramCache& ProgramCache::get() {
  static auto* const cache = new ProgramCache;  // tensors may outlive static objects
  return *cache;
}

std::shared_ptr<ReplayProgram> ProgramCache::find(const ProgramKey& key,
                                                  std::span<CapturedCall* const> calls,
                                                  const StorageNumbers& numbers, bool build) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_key_.find(key); at != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, at->second);
      if (at->second->program) {
        found_.fetch_add(1, std::memory_order_relaxed);
        return at->second->program;
      }
      build = true;
    } else {
      entries_.push_front({key, nullptr});
      by_key_.emplace(key, entries_.begin());
      if (entries_.size() > kMost) {
        by_key_.erase(entries_.back().key);
        entries_.pop_back();
      }
    }
  }
  if (!build) return nullptr;
  auto program = std::make_shared<ReplayProgram>(calls, numbers);
  built_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (const auto at = by_key_.find(key); at != by_key_.end()) {
    if (!at->second->program)
      at->second->program = program;  // another thread may have been quicker
    return at->second->program;
  }
  return program;
}

size_t ProgramCache::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void ProgramCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  by_key_.clear();
}

}  // namespace pellucid::detail
