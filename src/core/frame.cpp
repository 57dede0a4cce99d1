// A frame: what one run of a program needs and the next one reuses. How it is made from a graph,
// where its results lie, and its runs; what runs side by side is in frame_beside.cpp.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/allocator.h"
#include "base/random.h"
#include "core/program.h"
#include "core/registry.h"
#include "graph/lifetimes.h"

namespace pellucid::detail {
namespace {

using graph::kNone;

// Whether a parameter of a program, which is no part of its key, has another value.
bool differs(const Attr& a, const Attr& b) {
  switch (a.kind()) {
    case Attr::Kind::Float:
    case Attr::Kind::Scalar:
      return std::bit_cast<uint64_t>(a.number()) != std::bit_cast<uint64_t>(b.number());
    case Attr::Kind::Int:
      return a.integer() != b.integer();
    default:
      return false;
  }
}

Tensor tensor_of(const graph::Value& v, const Ref<Storage>& storage) {
  Ref<TensorImpl> impl = new_impl(v.dtype, v.sizes);
  impl->strides = v.strides;
  impl->offset = v.offset;
  impl->hidden_layout = v.hidden_layout;
  impl->wrapped_number = v.number;
  impl->storage = storage;
  return Tensor(std::move(impl));
}

uint64_t bits_at(const void* address, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, address, std::min<size_t>(bytes, sizeof bits));
  return bits;
}

}  // namespace

Frame::Arena::~Arena() {
  for (const Memory& m : blocks) deallocate(m.data, m.bytes, m.category);
}

Frame::Frame(const graph::Graph& g, std::span<void* const> addresses, const graph::PassSet& set,
             bool reasons)
    : graph_(g), storages_(g.storages.size(), nullptr) {
  make_calls(g);
  for (size_t s = 0; s < g.storages.size(); ++s)
    if (g.storages[s].external && g.storages[s].writes > 0)
      changed_.push_back(static_cast<uint32_t>(s));
  set_addresses(addresses);
  form_units(set.has("fuse"), reasons);
  place_results(g, set.has("plan"));
  if (set.has("beside") && memory_budget == 0) find_beside(g, set.has("plan"));
  watch_numbers();
  for (Storage* s : storages_)
    if (s) s->data = nullptr;
}

Frame::~Frame() {
  units_.clear();  // they look at the calls
}

void Frame::make_calls(const graph::Graph& g) {
  std::vector<Ref<Storage>> owned(g.storages.size());
  const auto tensor = [&](uint32_t value) {
    const graph::Value& v = g.values[value];
    Ref<Storage>& s = owned[v.storage];
    if (!s) {
      s = borrow_storage(nullptr, g.storages[v.storage].bytes, {});
      s->notes = 0;
      s->category = g.storages[v.storage].category;
      storages_[v.storage] = s.get();
    }
    return tensor_of(v, s);
  };
  for (const graph::Node& n : g.nodes) {
    auto call = std::make_unique<CapturedCall>(*n.op);
    call->in_place = n.in_place;
    call->tracked = n.tracked;
    call->default_dtype = n.default_dtype;
    call->output_count = static_cast<uint8_t>(n.outputs.size());
    call->attrs.assign(n.attrs);
    call->inputs.reserve(n.inputs.size());
    for (const graph::Use& u : n.inputs)
      call->inputs.emplace_back(u.value == kNone ? Tensor() : tensor(u.value));
    for (size_t k = 0; k < n.outputs.size(); ++k)
      if (n.outputs[k] != kNone)
        call->outputs[k] = n.in_place && k == 0 ? call->inputs[0] : tensor(n.outputs[k]);
    for (const uint32_t s : n.writes) call->writes.emplace_back(owned[s].get());
    calls_.push_back(std::move(call));
    origins_.push_back(n.call);
  }
  owned.clear();
  // Nobody but the calls sees what stays inside (Group asks).
  for (Storage* s : storages_)
    if (s) s->captured.store(s->refs.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// Results that have no memory yet get addresses of their own, by which groups tell them apart.
void Frame::set_addresses(std::span<void* const> addresses) {
  if (!nowhere_) nowhere_ = std::make_unique<Nowhere[]>(storages_.size());
  for (size_t s = 0; s < storages_.size(); ++s)
    if (storages_[s]) storages_[s]->data = addresses[s] ? addresses[s] : &nowhere_[s];
}

void Frame::form_units(bool fuse, bool reasons) {
  for (size_t i = 0; i < calls_.size();) {
    Unit u;
    u.first = i;
    const std::span<const std::unique_ptr<CapturedCall>> rest(calls_.data() + i, calls_.size() - i);
    if (fuse) u.group = Group::form(rest, reasons);
    if (fuse && !u.group) u.updates = Updates::form(rest, reasons);
    if (u.group) {
      u.count = u.group->size();
      u.end = u.group->end();
    } else if (u.updates) {
      u.count = u.updates->size();
      u.end = u.updates->end();
    } else {
      u.single = std::make_unique<PreparedCall>(*calls_[i]);
    }
    find_weights(u);
    i += u.count;
    units_.push_back(std::move(u));
  }
}

// What the program changes is not held: not even from one call to the next one of the same run.
void Frame::find_weights(Unit& u) {
  const graph::Node& n = graph_.nodes[u.first];
  if (n.op->kind != OpKind::Contraction || n.inputs.size() < 2 || n.inputs[1].value == kNone)
    return;
  u.weights = std::make_unique<CapturedWeights>();
  const uint32_t s = graph_.values[n.inputs[1].value].storage;
  u.weights->stand_in = storages_[s];
  if (graph_.storages[s].external && graph_.storages[s].writes == 0 && !n.tracked) u.held = s;
}

// What is used in several units, or by a call alone, needs memory from its first unit to its last.
void Frame::place_results(const graph::Graph& g, bool plan) {
  Uses uses = uses_of(g);
  std::vector<uint32_t>&first = uses.first, &last = uses.last;
  for (Unit& u : units_) {
    u.unmade = u.unmade_bytes = 0;
    u.takes.clear(), u.frees.clear(), u.leaves.clear();
  }
  inside_.clear(), large_.clear();
  lender_.assign(storages_.size(), kNone);
  // A root writes its further results (the statistics of a batch norm) to memory.
  std::vector<bool> written(storages_.size(), false);
  for (const Unit& u : units_)
    if (u.group && u.group->has_root())
      for (size_t k = 1; k < g.nodes[u.first].outputs.size(); ++k)
        if (const uint32_t v = g.nodes[u.first].outputs[k]; v != kNone)
          written[g.values[v].storage] = true;
  if (plan) borrow_places(g, first, last);
  std::vector<graph::Block> blocks;
  for (size_t s = 0; s < storages_.size(); ++s) {
    const graph::Storage& storage = g.storages[s];
    if (!storages_[s] || first[s] == kNone) continue;
    const auto number = static_cast<uint32_t>(s);
    if (storage.external) {
      if (storage.bytes >= kLargeResult) units_[last[s]].leaves.push_back(number);
      continue;
    }
    Unit& u = units_[first[s]];
    if (storage.live_out || lender_[s] != kNone) {
      u.takes.push_back(number);
    } else if (uses.own_first[s] == uses.own_last[s] && u.group &&
               !written[s]) {  // it lives in tiles alone
      ++u.unmade;
      u.unmade_bytes += static_cast<int64_t>(storage.bytes);
    } else if (plan && storage.bytes >= kLargeResult) {
      large_.push_back(number);
      u.takes.push_back(number);
      units_[last[s]].frees.push_back(number);
    } else {
      inside_.push_back(number);
      blocks.push_back({storage.bytes, first[s], last[s]});
    }
  }
  if (!plan)
    for (graph::Block& b : blocks) b.first = 0, b.last = static_cast<uint32_t>(units_.size());
  plan_ = graph::plan_memory(blocks);
  peak_bytes_ = foresee_peak(g, first, last);
}

// Whether all calls of a unit that read a storage see it as a value of those sizes and strides.
bool Frame::reads_alike(const graph::Graph& g, const Unit& unit, uint32_t storage,
                        const graph::Value& like) {
  for (size_t i = unit.first; i < unit.first + unit.count; ++i)
    for (const graph::Use& in : g.nodes[i].inputs) {
      if (in.value == kNone || g.values[in.value].storage != storage) continue;
      const graph::Value& v = g.values[in.value];
      if (!(v.sizes == like.sizes) || !(v.strides == like.strides) || v.dtype != like.dtype)
        return false;
    }
  return true;
}

// A result lies where an input did that nobody reads afterwards, if the op may write there. The
// input's memory then lasts as long as the result. In a group that goes tile by tile each tile of
// the input was read by then; a root reads its inputs as a whole.
void Frame::borrow_places(const graph::Graph& g, const std::vector<uint32_t>& first,
                          std::vector<uint32_t>& last) {
  std::vector<size_t> last_node(storages_.size(), 0);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    graph::for_each_read(g, g.nodes[i], [&](uint32_t s) { last_node[s] = i; });
  for (uint32_t u = 0; u < units_.size(); ++u) {
    const Unit& unit = units_[u];
    if (unit.updates || (unit.group && unit.group->has_root()) || beside_at(u)) continue;
    for (size_t i = unit.first; i < unit.first + unit.count; ++i) {
      const graph::Node& n = g.nodes[i];
      const uint32_t from = graph::lender_of(
          g, n, [&](uint32_t s) { return last[s] == u && last_node[s] == i && first[s] < u; });
      if (from == kNone) continue;
      const uint32_t to = g.values[n.outputs[0]].storage;
      if (first[to] != u || (unit.group && last[to] == u)) continue;  // it lives in tiles
      if (unit.group && !reads_alike(g, unit, from, g.values[n.outputs[0]])) continue;
      lender_[to] = lender_[from] == kNone ? from : lender_[from];
      last[lender_[to]] = last[to];
    }
  }
}

// The most bytes that the kernels of a unit take for themselves.
int64_t Frame::scratch_of(const Unit& u) const {
  int64_t scratch = 0;
  for (size_t i = u.first; i < u.first + u.count; ++i)
    if (calls_[i]->op.scratch)
      with_captured(*calls_[i],
                    [&](const Call& c) { scratch = std::max(scratch, calls_[i]->op.scratch(c)); });
  return scratch;
}

// The most bytes that a run needs at one time beside what exists before it: results, and what
// kernels take for themselves.
size_t Frame::foresee_peak(const graph::Graph& g, const std::vector<uint32_t>& first,
                           const std::vector<uint32_t>& last) {
  std::vector<int64_t> change(units_.size() + 1, 0);
  for (size_t s = 0; s < storages_.size(); ++s) {
    const graph::Storage& storage = g.storages[s];
    if (!storages_[s] || storage.external || !storage.live_out || first[s] == kNone) continue;
    change[first[s]] += static_cast<int64_t>(storage.bytes);
  }
  for (const uint32_t s : large_) {
    change[first[s]] += static_cast<int64_t>(g.storages[s].bytes);
    change[last[s] + 1] -= static_cast<int64_t>(g.storages[s].bytes);
  }
  int64_t now = static_cast<int64_t>(plan_.bytes), most = now;
  for (size_t u = 0; u < units_.size(); ++u) {
    now += change[u];
    most = std::max(most, now + scratch_of(units_[u]));
  }
  for (const Beside& b : beside_) most = std::max(most, foresee_section(g, b, first, last, change));
  return static_cast<size_t>(most);
}

void Frame::watch_numbers() {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].group) continue;
    for (size_t m = 0; m < units_[u].count; ++m)
      for (const graph::Use& in : graph_.nodes[units_[u].first + m].inputs) {
        if (in.value == kNone || !graph_.values[in.value].sizes.empty()) continue;
        const uint32_t s = graph_.values[in.value].storage;
        if (graph_.storages[s].external)
          numbers_.push_back({static_cast<uint32_t>(u), static_cast<uint32_t>(m), s,
                              bits_at(storages_[s]->data, storages_[s]->bytes)});
      }
  }
}

bool Frame::take_parameters(std::span<CapturedCall* const> calls,
                            std::span<void* const> addresses) {
  set_addresses(addresses);  // a kernel that is asked again for its loop may look at numbers
  bool fits = calls.empty() || take_from(calls);
  for (Number& n : numbers_) {
    const uint64_t bits = bits_at(storages_[n.storage]->data, storages_[n.storage]->bytes);
    if (bits == n.bits) continue;
    n.bits = bits;
    fits = fits && units_[n.unit].group->describe_again(n.member);
  }
  return fits;
}

bool Frame::take_from(std::span<CapturedCall* const> calls) {
  bool fits = true;
  for (Unit& u : units_)
    for (size_t m = 0; m < u.count; ++m) {
      CapturedCall& call = *calls_[u.first + m];
      const CapturedCall& from = *calls[origins_[u.first + m]];
      call.category = from.category;
      call.place = from.place;
      call.node = from.node;
      call.line = from.line;
      const Attrs old = call.attrs.view(), given = from.attrs.view();
      bool changed = false;
      for (size_t a = 0; a < old.size(); ++a) changed = changed || differs(old[a], given[a]);
      if (changed) {
        call.attrs.assign(given);
        if (u.group) fits = fits && u.group->describe_again(m);
      }
      if (!call.op.random_count) continue;
      call.seed = from.seed;
      call.random_offset = from.random_offset;
      if (u.single) u.single->take_parameters();
    }
  return fits;
}

// The place of an argument among the attributes, SIZE_MAX if there is none of that name.
static size_t attribute(const OpDef& op, std::string_view name) {
  size_t at = 0;
  for (const Arg& a : op.info->args) {
    if (a.type == ArgType::Tensor || a.type == ArgType::TensorList) continue;
    if (a.name == name) return at;
    ++at;
  }
  return SIZE_MAX;
}

void Frame::find_random() {
  random_found_ = true;
  for (size_t i = 0; i < calls_.size(); ++i)
    if (calls_[i]->op.random_count) random_.push_back({i, {}});
  std::sort(random_.begin(), random_.end(), [&](const Random& a, const Random& b) {
    return graph_.nodes[a.call].call < graph_.nodes[b.call].call;
  });
  std::map<std::pair<uint64_t, uint64_t>, std::vector<size_t>> drawn;  // places in random_
  for (size_t r = 0; r < random_.size(); ++r) {
    const graph::Node& n = graph_.nodes[random_[r].call];
    drawn[{n.seed, n.random_offset}].push_back(r);
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i]->op.run_time_attrs) continue;
    const size_t seed = attribute(calls_[i]->op, "seed"),
                 offset = attribute(calls_[i]->op, "offset");
    if (seed == SIZE_MAX || offset != seed + 1) continue;
    const Attrs attrs = graph_.nodes[i].attrs;
    const auto at = drawn.find({static_cast<uint64_t>(attrs[seed].integer()),
                                static_cast<uint64_t>(attrs[offset].integer())});
    if (at == drawn.end()) continue;
    for (const size_t r : at->second) random_[r].again.emplace_back(i, seed);
  }
}

void Frame::take_random(const PhiloxRange& traced, const PhiloxRange& now) {
  if (!random_found_) find_random();
  for (const Random& r : random_) {
    CapturedCall& call = *calls_[r.call];
    call.seed = now.seed;
    call.random_offset = now.offset + (graph_.nodes[r.call].random_offset - traced.offset);
    for (const auto& [again, seed] : r.again) {
      calls_[again]->attrs.set(seed, static_cast<int64_t>(call.seed));
      calls_[again]->attrs.set(seed + 1, static_cast<int64_t>(call.random_offset));
    }
  }
  for (Unit& u : units_)
    if (u.single) u.single->take_parameters();
}

void Frame::take_memory(Unit& u, const Outside& outside) {
  for (const uint32_t s : u.takes) {
    Storage& storage = *storages_[s];
    if (lender_[s] != kNone)
      storage.data = storages_[lender_[s]]->data;
    else if (!graph_.storages[s].live_out)
      storage.data = allocate(storage.bytes, storage.category);
    else if (!storage.data)
      storage.data = outside.give(s);
  }
}

void Frame::give_back(Unit& u, const Outside& outside) {
  for (const uint32_t s : u.frees) {
    Storage& storage = *storages_[s];
    deallocate(std::exchange(storage.data, nullptr), storage.bytes, storage.category);
  }
  if (outside.let_go)
    for (const uint32_t s : u.leaves) outside.let_go(s);
}

void Frame::run_unit(Unit& u, const Outside& outside) {
  if (u.held != kNone && !outside.storages.empty()) u.weights->storage = outside.storages[u.held];
  const CapturedWeightsScope weights(u.weights.get());
  if (u.group)
    u.group->run();
  else if (u.updates)
    u.updates->run();
  else
    u.single->run();
}

void Frame::run(std::span<void* const> addresses, const Outside& outside, size_t& done) {
  struct Changing {
    const std::vector<uint32_t>& changed;
    std::span<Storage* const> storages;
    void tell() const {
      if (storages.empty()) return;
      for (const uint32_t s : changed) bytes_change(*storages[s]);
    }
    Changing(const std::vector<uint32_t>& c, std::span<Storage* const> s)
        : changed(c), storages(s) {
      tell();
    }
    ~Changing() { tell(); }
  } const changing(changed_, outside.storages);
  for (size_t s = 0; s < storages_.size(); ++s)
    if (storages_[s]) storages_[s]->data = addresses[s];
  if (plan_.bytes > 0) {
    small_.data = allocate(plan_.bytes, small_.category);
    small_.bytes = plan_.bytes;
  }
  for (size_t i = 0; i < inside_.size(); ++i)
    storages_[inside_[i]]->data = static_cast<char*>(small_.data) + plan_.offsets[i];
  size_t next_beside = 0;
  for (size_t u = 0; u < units_.size();) {
    if (next_beside < beside_.size() && beside_[next_beside].section.first == u) {
      Beside& b = beside_[next_beside++];
      run_beside(b, outside);
      for (; u < b.end(); ++u) done += units_[u].count;
      continue;
    }
    Unit& unit = units_[u++];
    const MemoryCategoryGuard category(calls_[unit.first]->category);
    take_memory(unit, outside);
    run_unit(unit, outside);
    done += unit.count;
    give_back(unit, outside);
  }
  for (Storage* s : storages_)
    if (s) s->data = nullptr;
  const Arena::Memory block = std::exchange(small_, {});
  deallocate(block.data, block.bytes, block.category);
}

std::shared_ptr<Frame::Arena> Frame::take_arena() {
  auto arena = std::make_shared<Arena>();
  arena->blocks.push_back(std::exchange(small_, {}));
  for (const uint32_t s : large_)
    if (void* const data = storages_[s]->data)
      arena->blocks.push_back({data, storages_[s]->bytes, storages_[s]->category});
  return arena;
}

void Frame::explain(Explanation& e) const {
  for (const Unit& u : units_) {
    Explanation::Part part;
    for (size_t i = u.first; i < u.first + u.count; ++i) {
      part.ops.push_back(calls_[i]->op.info->name);
      part.lines.push_back(calls_[i]->line.text());
    }
    if (const Tensor& out = calls_[u.first + u.count - 1]->outputs[0]; out.defined()) {
      part.sizes.assign(out.sizes().begin(), out.sizes().end());
      part.dtype = out.dtype();
    }
    part.unmade = u.unmade;
    part.unmade_bytes = u.unmade_bytes;
    part.end = u.end;
    e.calls += static_cast<int64_t>(u.count);
    e.parts.push_back(std::move(part));
  }
  const auto tell = [&](const graph::Section& s) -> Explanation::Beside& {
    Explanation::Beside out{.threads = static_cast<int64_t>(s.threads),
                            .serial_seconds = s.serial_seconds,
                            .beside_seconds = s.beside_seconds,
                            .refused = s.refused};
    const Unit& last = units_[s.first + s.size() - 1];
    for (size_t i = units_[s.first].first; i < last.first + last.count; ++i)
      out.ops.push_back(calls_[i]->op.info->name);
    return e.beside.emplace_back(std::move(out));
  };
  for (const Beside& b : beside_) {
    Explanation::Beside& out = tell(b.section);
    out.measured_serial = b.serial;
    out.measured_beside = b.beside;
    if (b.slower) out.refused = "they were slower side by side";
  }
  for (const graph::Section& s : not_beside_) tell(s);
  e.arena_bytes += static_cast<int64_t>(plan_.bytes);
  e.reused += std::count_if(lender_.begin(), lender_.end(), [](uint32_t s) { return s != kNone; });
  int64_t held = 0;
  for (const Unit& u : units_)
    if (u.weights) held += u.weights->held_bytes;
  e.peak_bytes = std::max(e.peak_bytes, static_cast<int64_t>(peak_bytes_) + held);
}

}  // namespace pellucid::detail
