#include "graph/passes.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <unordered_map>

#include "base/env.h"
#include "pellucid/error.h"

namespace pellucid::graph {
namespace {

// Removes the nodes that are marked; their writes no longer count.
int64_t remove(Graph& g, const std::vector<bool>& marked) {
  int64_t removed = 0;
  size_t kept = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (marked[i]) {
      for (const uint32_t s : g.nodes[i].writes) --g.storages[s].writes;
      ++removed;
      continue;
    }
    if (kept != i) g.nodes[kept] = std::move(g.nodes[i]);
    ++kept;
  }
  g.nodes.resize(kept);
  return removed;
}

bool same_attr(const Attr& a, const Attr& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Attr::Kind::None:
      return true;
    case Attr::Kind::Bool:
    case Attr::Kind::Int:
    case Attr::Kind::DType:
    case Attr::Kind::Format:
      return a.integer() == b.integer();
    case Attr::Kind::Float:
      return std::bit_cast<uint64_t>(a.number()) == std::bit_cast<uint64_t>(b.number());
    case Attr::Kind::Scalar: {
      const Scalar x = a.scalar(), y = b.scalar();
      if (x.type() != y.type()) return false;
      return x.type() == kFloat64
                 ? std::bit_cast<uint64_t>(x.toDouble()) == std::bit_cast<uint64_t>(y.toDouble())
                 : x.toLong() == y.toLong();
    }
    case Attr::Kind::Ints:
      return a.ints() == b.ints();
    case Attr::Kind::Text:
      return a.text() == b.text();
  }
  return false;
}

bool same_view(const Value& a, const Value& b) {
  return a.dtype == b.dtype && a.number == b.number && a.hidden_layout == b.hidden_layout &&
         a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

// Whether a node makes results that are written once and nobody outside sees.
bool is_pure(const Graph& g, const Node& n) {
  if (n.unique || n.in_place || n.writes.empty() || n.op->random_count) return false;
  for (const uint32_t s : n.writes)
    if (g.storages[s].external || g.storages[s].writes != 1) return false;
  return !changes_in_place(g, n);
}

bool same_call(const Graph& g, const Node& a, const Node& b) {
  if (a.op != b.op || a.default_dtype != b.default_dtype || a.attrs.size() != b.attrs.size() ||
      a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size())
    return false;
  for (size_t i = 0; i < a.attrs.size(); ++i)
    if (!same_attr(a.attrs[i], b.attrs[i])) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const Use &x = a.inputs[i], &y = b.inputs[i];
    if ((x.value == kNone) != (y.value == kNone)) return false;
    if (x.value == kNone) continue;
    const Value &v = g.values[x.value], &w = g.values[y.value];
    if (v.storage != w.storage || x.version != y.version || !same_view(v, w)) return false;
  }
  for (size_t k = 0; k < a.outputs.size(); ++k) {
    if ((a.outputs[k] == kNone) != (b.outputs[k] == kNone)) return false;
    if (a.outputs[k] != kNone && !same_view(g.values[a.outputs[k]], g.values[b.outputs[k]]))
      return false;
  }
  return true;
}

/// Mixes all that same_call() compares: of many calls that read one tensor, few look alike.
struct CallHash {
  uint64_t h = 0x243f6a8885a308d3u;
  void add(uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  }
  void add(const Dims& dims) {
    add(dims.size());
    for (const int64_t n : dims) add(static_cast<uint64_t>(n));
  }
  void add(const Value& v) {
    add(static_cast<uint64_t>(v.dtype) << 2 | uint64_t{v.number} << 1 | uint64_t{v.hidden_layout});
    add(static_cast<uint64_t>(v.offset));
    add(v.sizes);
    add(v.strides);
  }
  void add(const Attr& a) {
    add(static_cast<uint64_t>(a.kind()));
    switch (a.kind()) {
      case Attr::Kind::None:
        break;
      case Attr::Kind::Float:
      case Attr::Kind::Scalar:
        add(std::bit_cast<uint64_t>(a.number()));
        break;
      case Attr::Kind::Ints:
        for (const int64_t n : a.ints()) add(static_cast<uint64_t>(n));
        break;
      case Attr::Kind::Text:
        add(std::hash<std::string_view>()(a.text()));
        break;
      default:
        add(static_cast<uint64_t>(a.integer()));
    }
  }
};

uint64_t hash_of(const Graph& g, const Node& n) {
  CallHash hash;
  hash.add(reinterpret_cast<uintptr_t>(n.op));
  for (const Attr& a : n.attrs) hash.add(a);
  for (const Use& u : n.inputs) {
    if (u.value == kNone) continue;
    hash.add(uint64_t{g.values[u.value].storage} << 32 | u.version);
    hash.add(g.values[u.value]);
  }
  for (const uint32_t v : n.outputs)
    if (v != kNone) hash.add(g.values[v]);
  return hash.h;
}

// A call that was made before with the same arguments is not made again. What the program can see
// keeps memory of its own, so only results that stay inside are merged.
int64_t merge_equal(Graph& g) {
  std::unordered_multimap<uint64_t, size_t> seen;
  std::vector<bool> merged(g.nodes.size(), false);
  std::vector<uint32_t> instead(g.storages.size(), kNone);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& n = g.nodes[i];
    for (const Use& u : n.inputs)
      if (u.value != kNone && instead[g.values[u.value].storage] != kNone)
        g.values[u.value].storage = instead[g.values[u.value].storage];
    if (!is_pure(g, n)) continue;
    const uint64_t h = hash_of(g, n);
    const auto [first, last] = seen.equal_range(h);
    const auto same = std::find_if(
        first, last, [&](const auto& e) { return same_call(g, g.nodes[e.second], n); });
    bool live_out = false;
    for (const uint32_t s : n.writes) live_out = live_out || g.storages[s].live_out;
    if (same == last) seen.emplace(h, i);
    if (same == last || live_out) continue;
    const Node& kept = g.nodes[same->second];
    Merge merge{.call = n.call, .into = kept.call};
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (n.outputs[k] == kNone) continue;
      const uint32_t from = g.values[n.outputs[k]].storage, to = g.values[kept.outputs[k]].storage;
      instead[from] = to;
      merge.storages.emplace_back(from, to);
    }
    g.merges.push_back(std::move(merge));
    merged[i] = true;
  }
  return remove(g, merged);
}

// A node whose results nobody reads and nobody sees is not run.
int64_t remove_dead(Graph& g) {
  std::vector<bool> needed(g.storages.size()), dead(g.nodes.size(), false);
  for (size_t s = 0; s < g.storages.size(); ++s)
    needed[s] = g.storages[s].live_out || g.storages[s].external;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& n = g.nodes[i];
    dead[i] = !n.checks &&
              std::none_of(n.writes.begin(), n.writes.end(), [&](uint32_t s) { return needed[s]; });
    if (!dead[i]) for_each_read(g, n, [&](uint32_t s) { needed[s] = true; });
  }
  return remove(g, dead);
}

// Whether a node may run as one with the nodes before it. A product only begins a group.
bool can_fuse(const Node& n) {
  return n.op->describes && n.op->kind != OpKind::Contraction && !n.op->random_count &&
         !n.outputs.empty() && n.outputs[0] != kNone;
}

// Whether a node makes one element of many: then it goes over what it reads.
bool is_reduction(const Graph& g, const Node& n) {
  return n.op->kind == OpKind::Reduction && !n.inputs.empty() && n.inputs[0].value != kNone &&
         detail::checked_numel(g.values[n.inputs[0].value].sizes) >
             detail::checked_numel(g.values[n.outputs[0]].sizes);
}

// Whether a node is an optimiser's step on few elements: such steps can run as one.
bool is_small_update(const Graph& g, const Node& n) {
  return n.outputs.empty() && n.op->describes && n.op->info->mutates &&
         n.inputs[0].value != kNone &&
         detail::checked_numel(g.values[n.inputs[0].value].sizes) <= kMostUpdated;
}

/// Nodes are moved to places between others: behind node `after` of the old order, and behind what
/// was put there before.
class Mover {
 public:
  explicit Mover(const Graph& g)
      : g_(g),
        place_(g.nodes.size()),
        taken_(g.nodes.size(), 0),
        last_write_(g.storages.size(), kBefore),
        last_access_(g.storages.size(), kBefore) {}

  /// The place of the last node so far that must run before n; kBefore if there is none.
  uint64_t bound(const Node& n) const {
    uint64_t b = kBefore;
    for_each_read(g_, n, [&](uint32_t s) { b = std::max(b, last_write_[s]); });
    for (const uint32_t s : n.writes) b = std::max(b, last_access_[s]);
    return b;
  }
  static constexpr uint64_t kBefore = 0;
  uint64_t place(size_t i) const { return place_[i]; }
  static size_t base(uint64_t place) { return static_cast<size_t>(place >> 32) - 1; }
  /// Puts node i where it is, or behind node `after`.
  void stay(size_t i) { put(i, uint64_t{i + 1} << 32); }
  void move(size_t i, size_t after) { put(i, (uint64_t{after + 1} << 32) + ++taken_[after]); }

  int64_t apply(Graph& g) const {
    std::vector<uint32_t> order(g.nodes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return place_[a] < place_[b]; });
    std::vector<Node> nodes(g.nodes.size());
    int64_t moved = 0;
    uint32_t first_behind = kNone;  // the earliest of the nodes that now run later
    for (size_t i = order.size(); i-- > 0;) {
      moved += order[i] > first_behind;
      first_behind = std::min(first_behind, order[i]);
      nodes[i] = std::move(g.nodes[order[i]]);
    }
    g.nodes = std::move(nodes);
    return moved;
  }

 private:
  void put(size_t i, uint64_t place) {
    place_[i] = place;
    for_each_read(g_, g_.nodes[i],
                  [&](uint32_t s) { last_access_[s] = std::max(last_access_[s], place); });
    for (const uint32_t s : g_.nodes[i].writes) {
      last_write_[s] = std::max(last_write_[s], place);
      last_access_[s] = std::max(last_access_[s], place);
    }
  }
  const Graph& g_;
  std::vector<uint64_t> place_;  // old index + 1, then the order behind it
  std::vector<uint32_t> taken_;
  std::vector<uint64_t> last_write_, last_access_;  // by storage
};

// A call over one shape runs right after the calls whose results it reads, where nothing between
// them stands in the way: neighbours can run as one.
int64_t gather_neighbours(Graph& g) {
  constexpr size_t kRecent = 16;
  struct Run {
    size_t last;  // the node that ends it
    Dims sizes, strides;
    bool product;  // it begins with one, whose blocks reductions cannot follow
    Dims reduced;  // the sizes of what its reductions make
    bool reduces = false;
    bool takes(const Value& over, const Value& out, bool reduction) const {
      // Reductions of one run go over it in the same order.
      if (reduction && (product || (reduces && !(reduced == out.sizes)))) return false;
      // What has one element a row is worked on between the rows.
      if (!reduction && reduces && reduced == out.sizes && reduces_rows()) return true;
      return sizes == over.sizes && strides == over.strides;
    }
    bool reduces_rows() const {
      size_t leading = reduced.size();
      while (leading > 0 && reduced[leading - 1] == 1) --leading;
      return leading > 0 && leading <= sizes.size() &&
             std::equal(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(leading),
                        sizes.begin());
    }
  };
  Mover mover(g);
  std::vector<Run> runs;                                    // the newest is last
  std::vector<size_t> run_of(g.storages.size(), SIZE_MAX);  // that made a storage
  size_t last_update = SIZE_MAX;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const bool product = n.op->kind == OpKind::Contraction;
    const bool seed = can_fuse(n) || (product && !n.outputs.empty() && n.outputs[0] != kNone);
    if (!seed) {
      const bool update = is_small_update(g, n);
      if (update && last_update != SIZE_MAX && mover.bound(n) <= mover.place(last_update))
        mover.move(i, Mover::base(mover.place(last_update)));
      else
        mover.stay(i);
      if (update) last_update = i;
      continue;
    }
    const bool reduction = is_reduction(g, n);
    const Value &out = g.values[n.outputs[0]],
                &over = reduction ? g.values[n.inputs[0].value] : out;
    size_t joined = SIZE_MAX;
    if (can_fuse(n)) {
      const uint64_t bound = mover.bound(n);
      for_each_read(g, n, [&](uint32_t s) {
        const size_t r = run_of[s];
        if (r == SIZE_MAX || runs.size() - r > kRecent) return;
        const Run& run = runs[r];
        if (run.takes(over, out, reduction) && bound <= mover.place(run.last) &&
            (joined == SIZE_MAX || r > joined))
          joined = r;
      });
    }
    if (joined == SIZE_MAX) {
      mover.stay(i);
      joined = runs.size();
      runs.push_back({i, over.sizes, over.strides, product, {}});
    } else {
      mover.move(i, Mover::base(mover.place(runs[joined].last)));
      runs[joined].last = i;
    }
    if (reduction) runs[joined].reduces = true, runs[joined].reduced = out.sizes;
    for (const uint32_t s : n.writes) run_of[s] = joined;
  }
  return mover.apply(g);
}

// A call that only changes what exists (an optimiser's step) runs as soon as it can, where that
// gives memory back: gradients do not wait for each other.
int64_t update_early(Graph& g) {
  constexpr size_t kLeastBytes = size_t{1} << 20;
  std::vector<size_t> last_use(g.storages.size(), 0);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for_each_read(g, g.nodes[i], [&](uint32_t s) { last_use[s] = i; });
  // Of each node, the last of the nodes in a row behind it that may run as one with it.
  std::vector<size_t> row_end(g.nodes.size());
  for (size_t i = g.nodes.size(); i-- > 0;)
    row_end[i] = i + 1 < g.nodes.size() && can_fuse(g.nodes[i + 1]) ? row_end[i + 1] : i;
  Mover mover(g);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const bool updates =
        !n.writes.empty() && std::all_of(n.writes.begin(), n.writes.end(),
                                         [&](uint32_t s) { return g.storages[s].external; });
    size_t freed = 0;
    if (updates)
      for_each_read(g, n, [&](uint32_t s) {
        if (!g.storages[s].external && !g.storages[s].live_out && last_use[s] == i)
          freed += g.storages[s].bytes;
      });
    const uint64_t bound = mover.bound(n);
    if (freed < kLeastBytes || bound == Mover::kBefore) {
      mover.stay(i);
      continue;
    }
    const size_t after = row_end[Mover::base(bound)];
    if (after + 1 >= i)
      mover.stay(i);
    else
      mover.move(i, after);
  }
  return mover.apply(g);
}

constexpr Pass kPasses[] = {
    {"cse", "a call that was made before with the same arguments is not made again", merge_equal},
    {"dead", "calls whose results nobody reads are not made", remove_dead},
    {"reassociate", "x@y + x@z is computed as x@(y + z), which rounds otherwise", reassociate,
     true},
    {"neighbours",
     "calls over one shape are put behind those whose results they read, small updates behind each "
     "other",
     gather_neighbours},
    {"updates", "updates of parameters run as soon as their gradients are there", update_early},
    {"delay", "results that wait are made right before they are read, if less waits then", delay},
    {"recompute", "results are computed again where memory has a budget", nullptr},
    {"fuse", "neighbours run as one group", nullptr},
    {"beside", "small independent calls run at the same time on several threads", nullptr},
    {"plan", "results inside the program get memory while they are needed, small ones in one block",
     nullptr},
};

std::atomic<uint64_t>& current_bits() {
  static std::atomic<uint64_t> bits = PassSet(env_string("PELLUCID_PASSES").value_or("")).bits();
  return bits;
}

uint64_t bit_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kPasses); ++i)
    if (kPasses[i].name == name) return uint64_t{1} << i;
  std::string known;
  for (const Pass& p : kPasses) known += (known.empty() ? "" : ", ") + std::string(p.name);
  PELLUCID_CHECK(false, ValueError,
                 "PELLUCID_PASSES: there is no pass '{}'. The passes are: {}. \"-fuse\" leaves one "
                 "out, \"cse,dead\" runs only those, \"+reassociate\" adds one.",
                 name, known);
  return 0;
}

}  // namespace

constinit thread_local bool reassociating = false;

std::span<const Pass> passes() { return kPasses; }

PassSet::PassSet(std::string_view text) {
  uint64_t all = 0, only = 0, without = 0, with = 0;
  for (const Pass& p : kPasses)
    if (!p.off) all |= bit_of(p.name);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word.empty() || word == "all") continue;
    if (word.starts_with('-'))
      without |= bit_of(word.substr(1));
    else if (word.starts_with('+'))
      with |= bit_of(word.substr(1));
    else
      only |= bit_of(word);
  }
  bits_ = ((only ? only : all) | with) & ~without;
}

bool PassSet::has(std::string_view name) const { return (bits_ & bit_of(name)) != 0; }

PassSet PassSet::current() {
  PassSet set;
  set.bits_ = current_bits().load(std::memory_order_relaxed);
  if (reassociating) set.bits_ |= bit_of("reassociate");
  return set;
}

void PassSet::set(PassSet passes) { current_bits().store(passes.bits_, std::memory_order_relaxed); }

std::vector<PassResult> optimize(Graph& g, const PassSet& set, size_t budget,
                                 const AfterPass& after) {
  std::vector<PassResult> results;
  verify(g, "capture");
  for (const Pass& pass : kPasses) {
    const bool recomputes = pass.name == "recompute" && budget > 0;
    if ((!pass.run && !recomputes) || !set.has(pass.name)) continue;
    const auto begun = std::chrono::steady_clock::now();
    PassResult r{.name = std::string(pass.name),
                 .nodes_before = static_cast<int64_t>(g.nodes.size())};
    r.changed = recomputes ? recompute(g, budget) : pass.run(g);
    verify(g, pass.name);
    r.nodes_after = static_cast<int64_t>(g.nodes.size());
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (after) after(r, g);
    results.push_back(std::move(r));
  }
  return results;
}

}  // namespace pellucid::graph
