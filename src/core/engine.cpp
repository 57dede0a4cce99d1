// Backward. Every node carries a number that grows with its creation, and an edge always leads to
// an older node; so taking the newest pending node first visits each node after all that feed it,
// with no counting of dependencies. Nothing recurses: not the walk, not the destruction of a graph.
#include "core/engine.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/autograd_meta.h"
#include "core/capture.h"
#include "core/estimate.h"
#include "core/tape.h"
#include "core/vjp_tools.h"
#include "pellucid/ops.h"
#include "recorder/recorder.h"
#include "tensor/phantom.h"

namespace pellucid::autograd {

namespace {
std::atomic<uint64_t> sequence_counter{1};
constinit thread_local std::vector<Node*>* dying = nullptr;
constinit thread_local GraphTask* current_task = nullptr;
}  // namespace

Node::Node() : sequence_(sequence_counter.fetch_add(1, std::memory_order_relaxed)) {
  if (detail::estimating()) [[unlikely]]
    estimate::note_node(sequence_);
}
Node::~Node() { delete extras_.load(std::memory_order_relaxed); }

void Node::destroy(Node* n) noexcept {
  if (dying) {  // a node is being destroyed further up this stack: wait for it instead of recursing
    dying->push_back(n);
    return;
  }
  std::vector<Node*> list;
  dying = &list;
  delete n;
  while (!list.empty()) {
    Node* next = list.back();
    list.pop_back();
    delete next;
  }
  dying = nullptr;
}

Node::Extras& Node::extras() {
  if (Extras* there = extras_if()) return *there;
  auto made = std::make_unique<Extras>();
  Extras* first = nullptr;
  if (!extras_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel))
    return *first;  // another thread was quicker
  return *made.release();
}

bool NodeLock::lock() {
  static std::atomic<int> threads{0};
  constinit thread_local int self = 0;
  if (self == 0) [[unlikely]]
    self = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  int holder = 0;
  while (!holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) {
    if (holder == self) return false;
    holder_.wait(holder, std::memory_order_relaxed);
    holder = 0;
  }
  return true;
}

void NodeLock::unlock() {
  holder_.store(0, std::memory_order_release);
  holder_.notify_all();
}

uint32_t Node::add_output(const Tensor& t) {
  outputs_.emplace_back(TensorFacts{t.impl().sizes, t.dtype()});
  return static_cast<uint32_t>(outputs_.size() - 1);
}

uint64_t Node::add_pre_hook(PreHook hook) {
  Extras& e = extras();
  const std::lock_guard lock(e.mutex);
  e.pre_hooks.emplace_back(e.next_hook_id, std::move(hook));
  return e.next_hook_id++;
}

uint64_t Node::add_post_hook(PostHook hook) {
  Extras& e = extras();
  const std::lock_guard lock(e.mutex);
  e.post_hooks.emplace_back(e.next_hook_id, std::move(hook));
  return e.next_hook_id++;
}

void Node::remove_hook(uint64_t id) {
  Extras* e = extras_if();
  if (!e) return;
  std::pair<uint64_t, PreHook> before;
  std::pair<uint64_t, PostHook> after;
  const std::lock_guard lock(e->mutex);
  before = take_hook(e->pre_hooks, id);
  after = take_hook(e->post_hooks, id);
}

const std::string& Node::forward_trace() const {
  static const std::string none;
  const Extras* e = extras_if();
  return e ? e->forward_trace : none;
}

// One backward run on one thread.
struct GraphTask {
  struct Slot {
    NodeRef node;
    variable_list grads;
  };
  struct Pending {
    uint64_t sequence;
    uint32_t slot;
    bool operator<(const Pending& o) const { return sequence < o.sequence; }
  };
  struct WantedGradient {
    uint32_t input_nr;
    size_t index;
  };

  bool keep_graph = false, create_graph = false;
  std::vector<Slot> slots;
  std::vector<uint32_t> free_slots;
  std::vector<variable_list> spare;  // emptied lists, kept for their memory
  std::vector<Pending> heap;
  // Nodes that another run holds at the same time; looked up here instead of in the node.
  std::unordered_map<Node*, uint32_t> contested;
  // With given inputs: where their gradients are taken, and which nodes lead there.
  bool filtered = false;
  bool accumulates_too = false;
  std::unordered_map<const Node*, std::vector<WantedGradient>> wanted;
  std::unordered_set<const Node*> needed;
  variable_list wanted_grads;
  const Node* running = nullptr;
  bool post_hooked = false;  // somebody sees the results of the running node
  GraphTask* outer = nullptr;

  GraphTask() : outer(current_task) { current_task = this; }
  ~GraphTask() {
    for (Slot& s : slots)
      if (s.node) release(s.node.get());
    current_task = outer;
  }

  void release(Node* n) {
    if (n->task.load(std::memory_order_relaxed) == this)
      n->task.store(nullptr, std::memory_order_release);
    else
      contested.erase(n);
  }

  /// Where the gradients of a pending node are summed; null if it has got none yet.
  Slot* find_slot(const Node* n) {
    if (n->task.load(std::memory_order_acquire) == this) return &slots[n->task_slot];
    const auto it = contested.find(const_cast<Node*>(n));
    return it != contested.end() ? &slots[it->second] : nullptr;
  }

  Slot& slot_of(const NodeRef& node) {
    Node* n = node.get();
    if (Slot* found = find_slot(n)) return *found;
    uint32_t index;
    if (!free_slots.empty()) {
      index = free_slots.back();
      free_slots.pop_back();
    } else {
      index = static_cast<uint32_t>(slots.size());
      slots.emplace_back();
    }
    GraphTask* nobody = nullptr;
    if (n->task.compare_exchange_strong(nobody, this, std::memory_order_acq_rel))
      n->task_slot = index;
    else
      contested.emplace(n, index);
    Slot& s = slots[index];
    s.node = node;
    if (!spare.empty()) {
      s.grads = std::move(spare.back());
      spare.pop_back();
    }
    s.grads.resize(std::max<size_t>(n->outputs_.size(), 1));
    heap.push_back({n->is_accumulate() ? 0 : n->sequence_, index});
    std::push_heap(heap.begin(), heap.end());
    return s;
  }

  const Tensor* immediate_leaf(const Node& node) const;
  void add(const Edge& edge, Tensor grad);
  bool add_in_place(size_t i, const std::function<void(const Tensor&)>& add_part);
  void run();
  void run_node(const NodeRef& node, variable_list&& grads);
  variable_list apply(Node& node, variable_list&& grads);
  void keep_wanted(const NodeRef& node, const variable_list& grads);
  void find_needed(const std::vector<Edge>& roots);
};

}  // namespace pellucid::autograd

bool pellucid::tape::add_to_gradient(size_t i, const std::function<void(const Tensor&)>& add) {
  return autograd::current_task && autograd::current_task->add_in_place(i, add);
}

namespace pellucid::autograd {

const void* current_run() { return current_task; }

void want_gradient(const Edge& edge) {
  if (current_task && current_task->filtered && edge.is_valid())
    current_task->needed.insert(edge.function.get());
}

void fit_gradient(const Node& node, size_t i, Tensor& grad, const TensorFacts& wanted) {
  if (grad.sizes() != wanted.sizes.ref()) {
    const IntArrayRef from = grad.sizes(), to = wanted.sizes;
    bool fits = from.size() >= to.size();
    for (size_t d = 1; fits && d <= to.size(); ++d)
      fits = to[to.size() - d] == 1 || to[to.size() - d] == from[from.size() - d];
    PELLUCID_CHECK(
        fits, ShapeError,
        "{} returned a gradient of sizes {} for its input {}, which has sizes {}. Return "
        "one of the input's sizes, or of sizes to which these broadcast.",
        node.name(), from, i, to);
    grad = sum_to_size(grad, to);
  }
  if (grad.dtype() != wanted.dtype) grad = grad.to(wanted.dtype);
}

bool edge_needed(const Edge& edge) {
  if (!edge.is_valid()) return false;
  return !current_task || !current_task->filtered ||
         current_task->needed.contains(edge.function.get());
}

namespace {

using tape::exclusively_owned;

// sum += grad. A call of add_ costs several times the work on a few numbers, and chains of scalars
// sum one gradient per op: those are added here, with the same bits.
void add_gradient(const Tensor& sum, const Tensor& grad) {
  constexpr int64_t kFew = 16;
  const detail::TensorImpl &to = sum.impl(), &from = grad.impl();
  if (to.numel > kFew || to.dtype != from.dtype || !(to.sizes == from.sizes) ||
      !to.is_contiguous() || !from.is_contiguous() || !detail::has_values(to) ||
      !detail::has_values(from) || to.storage->captured.load(std::memory_order_acquire) != 0 ||
      detail::is_pending(*from.storage) || (to.dtype != kFloat32 && to.dtype != kFloat64)) {
    sum.add_(grad);
    return;
  }
  const auto add = [&]<class T>(T* a, const T* b) {
    for (int64_t i = 0; i < to.numel; ++i) a[i] += b[i];
  };
  if (to.dtype == kFloat32)
    add(static_cast<float*>(to.data()), static_cast<const float*>(from.data()));
  else
    add(static_cast<double*>(to.data()), static_cast<const double*>(from.data()));
  sum.impl().bump_version();
}

void accumulate_into(Tensor& sum, Tensor&& grad, bool create_graph) {
  if (!sum.defined())
    sum = std::move(grad);
  else if (!create_graph && exclusively_owned(sum) && sum.dtype() == grad.dtype())
    add_gradient(sum, grad);
  else if (!create_graph && exclusively_owned(grad) && sum.dtype() == grad.dtype()) {
    add_gradient(grad, sum);
    sum = std::move(grad);
  } else
    sum = sum.add(grad);
}

void check_same_sizes(const Tensor& sum, const Tensor& grad) {
  PELLUCID_CHECK(sum.sizes() == grad.sizes(), ShapeError,
                 "AccumulateGrad: a gradient of sizes {} cannot be added to a .grad of sizes {}, "
                 "which the program set; set it to an undefined tensor first.",
                 grad.sizes(), sum.sizes());
}

// With a graph of gradients: tracked ops take locks of other leaves, so none is held meanwhile.
void accumulate_tracked(SmallLock& mutex, Tensor& sum, const Tensor& grad) {
  Tensor before;
  {
    const std::lock_guard lock(mutex);
    before = sum;
  }
  for (;;) {
    if (before.defined()) check_same_sizes(before, grad);
    // A copy: the program may change it in place, and the graph still needs grad.
    Tensor after = before.defined() ? before.add(grad) : grad.clone();
    const std::lock_guard lock(mutex);
    if (sum.is_same(before)) {
      std::swap(sum, after);
      return;
    }
    before = sum;  // another thread was quicker
  }
}

void accumulate_leaf(const Tensor& leaf, Tensor&& grad) {
  detail::AutogradMeta& meta = detail::meta_of(leaf);
  SmallLock& mutex = detail::leaf_lock(&leaf.impl());
  const MemoryCategoryGuard category(MemoryCategory::Gradient);
  if (GradMode::is_enabled()) return accumulate_tracked(mutex, meta.grad, grad);
  const std::lock_guard lock(mutex);
  if (detail::modes & detail::kCapture) [[unlikely]]
    if (detail::Capture& own = detail::Capture::own(); own.forbids_values())
      own.will_change_gradient(leaf, meta.grad);
  if (!meta.grad.defined()) {
    meta.grad = exclusively_owned(grad) ? std::move(grad) : grad.detach().clone();
  } else {
    check_same_sizes(meta.grad, grad);
    add_gradient(meta.grad, grad);
  }
}

// A hook may replace a gradient by one of the same sizes and dtype.
void check_replaced(const Tensor& replaced, const Tensor& grad, std::string_view where) {
  PELLUCID_CHECK(replaced.sizes() == grad.sizes(), ShapeError,
                 "a hook on {} returned a gradient of sizes {} where {} were expected.", where,
                 replaced.sizes(), grad.sizes());
  PELLUCID_CHECK(replaced.dtype() == grad.dtype(), TypeError,
                 "a hook on {} returned a gradient of dtype {} where {} was expected; convert it "
                 "with .to({}).",
                 where, replaced.dtype(), grad.dtype(), grad.dtype());
}

Tensor run_hook(const std::function<Tensor(Tensor)>& hook, const Tensor& grad,
                std::string_view where) {
  Tensor replaced = hook(grad);
  if (!replaced.defined()) return grad;
  check_replaced(replaced, grad, where);
  return replaced;
}

// A list of hooks as it is now: hooks may come and go while they run, on other threads too.
template <class List> List copy_of(Node::Extras& e, const List& list) {
  const std::lock_guard lock(e.mutex);
  return list;
}

// Hooks on what arrives at a node, and gradients that are retained.
void run_hooks_before(const Node& node, variable_list& grads) {
  Node::Extras& e = *node.extras_if();
  const auto tensor_hooks = copy_of(e, e.tensor_hooks);
  for (const auto& [output, hooks] : tensor_hooks)
    for (const auto& [id, hook] : hooks)
      if (grads[output].defined()) grads[output] = run_hook(hook, grads[output], node.name());
  const auto retained = copy_of(e, e.retain_grad);
  for (const auto& [output, keepers] : retained)
    for (const auto& keeper : keepers)
      if (grads[output].defined()) keeper->receive(grads[output]);
  const auto pre_hooks = copy_of(e, e.pre_hooks);
  for (const auto& [id, hook] : pre_hooks) {
    variable_list replaced = hook(grads);
    if (replaced.empty()) continue;
    PELLUCID_CHECK(replaced.size() == grads.size(), AutogradError,
                   "a hook before {} returned {} gradients where {} were expected.", node.name(),
                   replaced.size(), grads.size());
    for (size_t i = 0; i < grads.size(); ++i)
      if (replaced[i].defined() && grads[i].defined())
        check_replaced(replaced[i], grads[i], node.name());
    grads = std::move(replaced);
  }
}

auto hooks_of_leaf(const Tensor& leaf) {
  const std::lock_guard lock(detail::leaf_lock(&leaf.impl()));
  return leaf.impl().meta->hooks;
}

void check_for_nan(const Node& node, const variable_list& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    const Tensor& g = grads[i];
    if (!g.defined() || !g.is_floating_point()) continue;
    const NoGradGuard off;
    const Tensor bad = isnan(g);
    if (!bad.any().item<bool>()) continue;
    const Tensor where = nonzero(bad);
    std::vector<int64_t> index;
    for (int64_t d = 0; d < g.dim(); ++d)
      index.push_back(where.select(0, 0).select(0, d).item<int64_t>());
    detail::raise<AutogradError>(
        "{} returned NaN in the gradient of its input {} ({}), first at index {}. The forward call "
        "was {}. "
        "Look for a division by zero, a log or sqrt of a value that is not positive, or an "
        "overflow there.",
        node.name(), i, describe(g), IntArrayRef(index),
        node.forward_trace().empty() ? "recorded before anomaly mode was on"
                                     : node.forward_trace());
  }
}

}  // namespace

// What a gradient that goes along the edge must be. A leaf is asked as it is now: set_data may have
// changed it since its accumulator was made.
TensorFacts wanted_by(const Edge& edge) {
  if (!edge.function->is_accumulate()) return edge.function->outputs_[edge.input_nr];
  const detail::TensorImpl& leaf =
      static_cast<const AccumulateGrad&>(*edge.function).variable_.impl();
  return {leaf.sizes, leaf.dtype};
}

// What a node that is no op's, or a hook after it, gave for the node's inputs.
void check_results(const Node& node, variable_list& results) {
  const auto& edges = node.next_edges_;
  PELLUCID_CHECK(results.size() == edges.size(), AutogradError,
                 "{} returned {} gradients where {} were expected, one for each of its inputs.",
                 node.name(), results.size(), edges.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && edges[i].is_valid())
      fit_gradient(node, i, results[i], wanted_by(edges[i]));
}

// The leaf behind a node, if what arrives there is added to its gradient at once: without hooks the
// order of contributions does not matter to anyone, so there is no need to hold them back.
const Tensor* GraphTask::immediate_leaf(const Node& node) const {
  if (!node.is_accumulate() || filtered || node.extras_if()) return nullptr;
  const Tensor& leaf = static_cast<const AccumulateGrad&>(node).variable_;
  return leaf.impl().meta->hooked.load(std::memory_order_acquire) ? nullptr : &leaf;
}

void GraphTask::add(const Edge& edge, Tensor grad) {
  const NodeRef& node = edge.function;
  if (const Tensor* leaf = immediate_leaf(*node)) {
    accumulate_leaf(*leaf, std::move(grad));
    return;
  }
  Slot& s = slot_of(node);
  accumulate_into(s.grads[edge.input_nr], std::move(grad), create_graph);
}

bool GraphTask::add_in_place(size_t i, const std::function<void(const Tensor&)>& add_part) {
  if (running != tape::applying || post_hooked || create_graph || GradMode::is_enabled() ||
      AnomalyMode::is_enabled())
    return false;
  const Edge& edge = running->next_edges_[i];
  if (!edge_needed(edge)) return false;
  const DType dtype = edge.function->outputs_[edge.input_nr].dtype;
  if (const Tensor* leaf = immediate_leaf(*edge.function)) {
    const std::lock_guard lock(detail::leaf_lock(&leaf->impl()));
    const Tensor& sum = detail::meta_of(*leaf).grad;
    if (!sum.defined() || sum.dtype() != dtype) return false;
    add_part(sum);
    return true;
  }
  const Slot* slot = find_slot(edge.function.get());
  if (!slot) return false;
  const Tensor& sum = slot->grads[edge.input_nr];
  if (!sum.defined() || sum.dtype() != dtype || !exclusively_owned(sum)) return false;
  add_part(sum);
  return true;
}

void GraphTask::keep_wanted(const NodeRef& node, const variable_list& grads) {
  const auto it = wanted.find(node.get());
  if (it == wanted.end()) return;
  for (const WantedGradient& w : it->second)
    if (grads[w.input_nr].defined()) wanted_grads[w.index] = grads[w.input_nr];
}

// The scope of a node's backward, hooks and sums of gradients included; it is charged to the op
// that made the node.
class NodeScope {
 public:
  explicit NodeScope(const Node& node) noexcept {
    if (profile::recording()) [[unlikely]]
      begin(node);
  }
  ~NodeScope() {
    if (begun_) [[unlikely]]
      profile::end_scope(this, 0, std::uncaught_exceptions() > exceptions_);
  }
  NodeScope(const NodeScope&) = delete;

 private:
  void begin(const Node& node) noexcept {
    using profile::EventKind;
    begun_ = true;
    exceptions_ = std::uncaught_exceptions();
    // A node of an op is known by its op definition, any other by its name.
    const uint64_t hash = node.op() ? profile::mix(0xbac, reinterpret_cast<uint64_t>(node.op()))
                                    : profile::scope_hash(EventKind::Backward, node.name());
    if (profile::begin_call(this, EventKind::Backward, hash, 0, node.sequence_nr())) [[likely]]
      return;
    const uint32_t what =
        node.op() ? profile::scope_signature(EventKind::Backward, node.op()->info->node_name)
                  : profile::scope_signature(EventKind::Backward, node.name());
    profile::begin_new_call(this, EventKind::Backward, hash, 0, what, node.sequence_nr());
  }
  bool begun_ = false;
  int exceptions_ = 0;
};

// Runs a node alone: what it saved may be shared with other runs, and goes with the first that does
// not retain the graph.
variable_list GraphTask::apply(Node& node, variable_list&& grads) {
  if (node.is_accumulate()) return node.apply(std::move(grads));  // guarded by its leaf's lock
  const InUse in_use(node);
  variable_list results = node.apply(std::move(grads));
  grads.clear();  // a result may have been written into one of them, and be its memory's sole owner
  if (!keep_graph) node.release_variables();
  return results;
}

void GraphTask::run_node(const NodeRef& node, variable_list&& grads) {
  const NodeScope scope(*node);
  const estimate::NodeScope charged(node->sequence_);
  if (node->extras_if()) [[unlikely]]
    run_hooks_before(*node, grads);
  if (node->is_accumulate()) {
    const Tensor& leaf = static_cast<AccumulateGrad&>(*node).variable_;
    for (const auto& [id, hook] : hooks_of_leaf(leaf))
      if (grads[0].defined()) grads[0] = run_hook(hook, grads[0], "a leaf");
  }
  keep_wanted(node, grads);
  if (filtered && node->is_accumulate() && !accumulates_too) return;
  if (filtered && !node->is_accumulate() &&
      std::none_of(node->next_edges_.begin(), node->next_edges_.end(), edge_needed))
    return;  // a gradient was taken here, and nothing beyond it was asked for

  decltype(Node::Extras::post_hooks) post_hooks;
  if (Node::Extras* e = node->extras_if()) [[unlikely]]
    post_hooks = copy_of(*e, e->post_hooks);
  const variable_list kept = post_hooks.empty() ? variable_list() : grads;
  running = node.get();
  post_hooked = !post_hooks.empty();
  variable_list results = apply(*node, std::move(grads));
  for (const auto& [id, hook] : post_hooks) {
    variable_list replaced = hook(results, kept);
    if (!replaced.empty()) results = std::move(replaced);
  }
  if (!node->op() || !post_hooks.empty()) check_results(*node, results);
  if (AnomalyMode::is_enabled() && AnomalyMode::should_check_nan()) check_for_nan(*node, results);
  for (size_t i = 0; i < results.size(); ++i) {
    const Edge& edge = node->next_edges_[i];
    if (results[i].defined() && edge_needed(edge)) add(edge, std::move(results[i]));
  }
}

void GraphTask::run() {
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const uint32_t index = heap.back().slot;
    heap.pop_back();
    NodeRef node = std::move(slots[index].node);
    variable_list grads = std::move(slots[index].grads);
    slots[index].grads.clear();
    free_slots.push_back(index);
    release(node.get());
    run_node(node, std::move(grads));
    grads.clear();
    spare.push_back(std::move(grads));
  }
}

// Marks the nodes from which a wanted gradient can be reached, without recursion.
void GraphTask::find_needed(const std::vector<Edge>& roots) {
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<const Node*, size_t>> stack;
  for (const Edge& root : roots) {
    if (!root.is_valid() || !seen.insert(root.function.get()).second) continue;
    stack.emplace_back(root.function.get(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == 0 && wanted.contains(node)) needed.insert(node);
      if (next < node->next_edges_.size()) {
        const Node* child = node->next_edges_[next++].function.get();
        if (!child) continue;
        if (needed.contains(child)) {
          needed.insert(node);
          continue;
        }
        if (seen.insert(child).second) stack.emplace_back(child, 0);
      } else {
        const bool reached = needed.contains(node);
        stack.pop_back();
        if (reached && !stack.empty()) needed.insert(stack.back().first);
      }
    }
  }
}

namespace {

Tensor root_gradient(const Tensor& output, const Tensor& given) {
  if (!given.defined()) {
    PELLUCID_CHECK(output.numel() == 1, ShapeError,
                   "backward: the gradient of an output with {} elements (sizes {}) must be given; "
                   "it is 1 only for "
                   "one element. Reduce it first, for example with sum().",
                   output.numel(), output.sizes());
    return ones(output.sizes(), output.dtype());
  }
  PELLUCID_CHECK(given.sizes() == output.sizes(), ShapeError,
                 "backward: the given gradient has sizes {} but the output has {}.", given.sizes(),
                 output.sizes());
  return given.dtype() == output.dtype() ? given : given.to(output.dtype());
}

variable_list run_backward(const variable_list& outputs, const variable_list& grad_outputs,
                           bool keep_graph, bool create_graph, const variable_list& inputs,
                           bool allow_unused, bool accumulate) {
  PELLUCID_CHECK(!outputs.empty(), ValueError, "backward: at least one output is needed.");
  PELLUCID_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), ValueError,
                 "backward: {} gradients were given for {} outputs.", grad_outputs.size(),
                 outputs.size());
  const RecordFunction scope("backward", profile::EventKind::Engine);
  const AutoGradMode mode(create_graph);
  const MemoryCategoryGuard category(MemoryCategory::Gradient);
  GraphTask task;
  task.keep_graph = keep_graph;
  task.create_graph = create_graph;
  task.accumulates_too = accumulate;
  std::vector<Edge> roots;
  variable_list grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    PELLUCID_CHECK(outputs[i].defined() && tape::requires_grad(outputs[i]), AutogradError,
                   "backward: output {} does not require a gradient and has no history. Call "
                   "requires_grad_() on a "
                   "leaf it depends on, and check that no NoGradGuard or detach() cut the graph.",
                   i);
    roots.push_back(gradient_edge(outputs[i]));
    grads.push_back(root_gradient(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i]));
  }
  std::vector<Edge> targets;
  if (!inputs.empty()) {
    task.filtered = true;
    task.wanted_grads.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      PELLUCID_CHECK(inputs[i].defined() && tape::requires_grad(inputs[i]), AutogradError,
                     "grad: input {} does not require a gradient; call requires_grad_() on it "
                     "before it is used.",
                     i);
      targets.push_back(gradient_edge(inputs[i]));
      task.wanted[targets.back().function.get()].push_back({targets.back().input_nr, i});
    }
    task.find_needed(roots);
  }
  for (size_t i = 0; i < roots.size(); ++i)
    if (edge_needed(roots[i])) task.add(roots[i], std::move(grads[i]));
  task.run();
  for (size_t i = 0; i < inputs.size() && !allow_unused; ++i)
    PELLUCID_CHECK(task.wanted_grads[i].defined(), AutogradError,
                   "grad: input {} was not used in the graph of the outputs. Pass allow_unused = "
                   "true to get an "
                   "undefined gradient for it.",
                   i);
  return std::move(task.wanted_grads);
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors,
              std::optional<bool> retain_graph, bool create_graph, const variable_list& inputs) {
  for (const Tensor& t : inputs)
    PELLUCID_CHECK(t.defined() && t.is_leaf(), AutogradError,
                   "backward: the given inputs must be leaves.");
  run_backward(tensors, grad_tensors, retain_graph.value_or(create_graph), create_graph, inputs,
               true, true);
}

variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs, std::optional<bool> retain_graph,
                   bool create_graph, bool allow_unused) {
  PELLUCID_CHECK(!inputs.empty(), ValueError, "grad: at least one input is needed.");
  return run_backward(outputs, grad_outputs, retain_graph.value_or(create_graph), create_graph,
                      inputs, allow_unused, false);
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : variable_(leaf) {
  weakly_held = true;
  add_output(leaf);
}

AccumulateGrad::~AccumulateGrad() {
  const std::lock_guard lock(detail::leaf_lock(&variable_.impl()));
  detail::AutogradMeta* meta = variable_.impl().meta;
  if (meta && meta->accumulator == this) meta->accumulator = nullptr;
}

variable_list AccumulateGrad::apply(variable_list&& grads) {
  if (grads[0].defined()) accumulate_leaf(variable_, std::move(grads[0]));
  return {};
}

}  // namespace pellucid::autograd
