// Reverse-mode differentiation: the walkable graph, the guards, grad and backward, custom
// functions, hooks, checkpointing and the checks that a gradient is right. Names are libtorch's.
#pragma once

#include <any>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"
#include "pellucid/tensor.h"

namespace pellucid::detail {
class GradKeeper;
}

namespace pellucid::autograd {

using Variable = Tensor;
using variable_list = std::vector<Tensor>;
struct Node;
using NodeRef = detail::Ref<Node>;

/// Where a gradient goes: a node and which of its inputs.
struct Edge {
  NodeRef function;
  uint32_t input_nr = 0;
  bool is_valid() const { return static_cast<bool>(function); }
};
using edge_list = std::vector<Edge>;

/// Sizes and dtype of a forward result, to make zeros or check a gradient.
struct TensorFacts {
  Dims sizes;
  DType dtype = kFloat32;
};

/// What a node or tensor keeps alive for backward; PyTorch's pictures show these.
struct SavedInfo {
  std::string name;  ///< "self", "result"
  Tensor tensor;
};

/// Which node ran on which part of the graph; scratch of one backward run.
struct GraphTask;

/// Held while a node runs or gives up what it saved, so that two backward runs may meet there. The
/// thread that holds it may take it again: a node's backward may look at its own node.
class PELLUCID_API NodeLock {
 public:
  /// Returns false where this thread holds the lock already.
  bool lock();
  void unlock();

 private:
  std::atomic<int> holder_{0};  ///< the number of the thread that holds it, 0 for none
};

/// A step of backward: takes the gradients of its forward outputs, gives those of its forward
/// inputs.
struct PELLUCID_API Node : detail::RefCounted {
  using PreHook = std::function<variable_list(const variable_list& grad_outputs)>;
  using PostHook = std::function<variable_list(const variable_list& grad_inputs,
                                               const variable_list& grad_outputs)>;

  Node();
  virtual ~Node();
  /// "MulBackward0", PyTorch's name.
  virtual std::string name() const = 0;
  variable_list operator()(variable_list&& grads) { return apply(std::move(grads)); }
  virtual variable_list apply(variable_list&& grads) = 0;
  /// Drops what was saved; called after the node ran unless the graph is retained.
  virtual void release_variables() {}
  /// What is kept for backward, by name; for pictures and memory reports.
  virtual std::vector<SavedInfo> saved_tensors() const { return {}; }
  /// The leaf, for AccumulateGrad; undefined otherwise.
  virtual Tensor variable() const { return {}; }
  /// The op definition behind the node, or null.
  virtual const OpDef* op() const { return nullptr; }
  /// Whether the leaf is accumulated by this node.
  virtual bool is_accumulate() const { return false; }

  ArrayRef<Edge> next_edges() const { return next_edges_.ref(); }
  ArrayRef<Edge> next_functions() const { return next_edges_.ref(); }
  const Edge& next_edge(size_t i) const { return next_edges_[i]; }
  uint32_t num_outputs() const { return static_cast<uint32_t>(next_edges_.size()); }
  uint32_t num_inputs() const { return static_cast<uint32_t>(outputs_.size()); }
  uint64_t sequence_nr() const { return sequence_; }
  /// Sizes and dtypes of the forward results whose gradients this node takes.
  ArrayRef<TensorFacts> forward_outputs() const { return outputs_.ref(); }
  uint64_t add_pre_hook(PreHook hook);
  uint64_t add_post_hook(PostHook hook);
  uint64_t register_hook(PostHook hook) { return add_post_hook(std::move(hook)); }
  uint64_t register_prehook(PreHook hook) { return add_pre_hook(std::move(hook)); }
  void remove_hook(uint64_t id);
  /// The place and shapes of the forward call, kept in anomaly mode.
  const std::string& forward_trace() const;

  static void destroy(Node* n) noexcept;
  static void* operator new(size_t bytes) { return detail::pool_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { detail::pool_release(p, bytes); }

  // The engine's and the tape's.
  struct Extras {      ///< rarely there; never goes before its node
    std::mutex mutex;  ///< of all that follows: hooks may be added while another thread runs
    std::vector<std::pair<uint64_t, PreHook>> pre_hooks;
    std::vector<std::pair<uint64_t, PostHook>> post_hooks;
    std::map<uint32_t, std::vector<std::pair<uint64_t, std::function<Tensor(Tensor)>>>>
        tensor_hooks;
    /// By output: who wants to keep its gradient.
    std::map<uint32_t, std::vector<std::shared_ptr<detail::GradKeeper>>> retain_grad;
    std::string forward_trace;
    uint64_t next_hook_id = 1;
  };
  Extras& extras();
  Extras* extras_if() const { return extras_.load(std::memory_order_acquire); }
  uint32_t add_output(const Tensor& t);
  detail::InlineVec<Edge, 2> next_edges_;
  detail::InlineVec<TensorFacts, 1> outputs_;
  uint64_t sequence_;
  std::atomic<GraphTask*> task{nullptr};
  uint32_t task_slot = 0;
  /// Somebody finds this node without owning it (a leaf its accumulator, see gradient_edge), so the
  /// count must reach 0 before the end.
  bool weakly_held = false;
  std::atomic<Extras*> extras_{nullptr};  ///< owned
  mutable NodeLock in_use_;
};

/// Adds the incoming gradient to a leaf's grad.
struct PELLUCID_API AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  std::string name() const override { return "AccumulateGrad"; }
  variable_list apply(variable_list&& grads) override;
  Tensor variable() const override { return variable_; }
  bool is_accumulate() const override { return true; }
  Tensor variable_;
};

/// The edge into which the gradient of `t` flows: its grad_fn, its accumulator, or nothing.
PELLUCID_API Edge gradient_edge(const Tensor& t);
inline Edge to_edge(const Tensor& t) { return gradient_edge(t); }

/// Sums gradients of `tensors` into the leaves (or only into `inputs`).
PELLUCID_API void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
                           std::optional<bool> retain_graph = std::nullopt,
                           bool create_graph = false, const variable_list& inputs = {});
/// The gradients of `outputs` with respect to `inputs`, without touching any .grad.
PELLUCID_API variable_list grad(const variable_list& outputs, const variable_list& inputs,
                                const variable_list& grad_outputs = {},
                                std::optional<bool> retain_graph = std::nullopt,
                                bool create_graph = false, bool allow_unused = false);

/// Whether the current thread tracks operations.
struct PELLUCID_API GradMode {
  static bool is_enabled();
  static void set_enabled(bool on);
};

/// Sets grad mode for a scope.
class PELLUCID_API AutoGradMode {
 public:
  explicit AutoGradMode(bool on) : before_(GradMode::is_enabled()) { GradMode::set_enabled(on); }
  ~AutoGradMode() { GradMode::set_enabled(before_); }
  AutoGradMode(const AutoGradMode&) = delete;

 private:
  bool before_;
};

/// No operation is tracked in its scope.
class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() : AutoGradMode(false) {}
};

/// Like NoGradGuard, and the tensors made in it may never take part in a tracked graph as saved
/// values.
class PELLUCID_API InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  static bool is_enabled();

 private:
  bool grad_before_, mode_before_;
};

/// Names the forward op, its place, shapes and first bad value when a gradient turns NaN, for a
/// scope.
class PELLUCID_API DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;

 private:
  bool before_, check_before_;
};
struct PELLUCID_API AnomalyMode {
  static bool is_enabled();
  static bool should_check_nan();
  static void set_enabled(bool enabled, bool check_nan = true);
};

/// Packs every tensor saved in its scope with `pack`, and unpacks it with `unpack` when backward
/// needs it.
class PELLUCID_API SavedTensorsHooks {
 public:
  using Pack = std::function<std::any(const Tensor&)>;
  using Unpack = std::function<Tensor(const std::any&)>;
  SavedTensorsHooks(Pack pack, Unpack unpack);
  ~SavedTensorsHooks();
  SavedTensorsHooks(const SavedTensorsHooks&) = delete;
};

/// A tensor kept for backward, with the version it must still have.
class PELLUCID_API SavedVariable {
 public:
  /// What the tensor is to the node that keeps it: one of its inputs whose history is the node's
  /// own edge of the same number, another tensor, or one of its outputs.
  enum class Role : uint8_t { NodeInput, Other, Output };
  SavedVariable() = default;
  SavedVariable(const Tensor& t, Role role);
  bool defined() const { return state_ != State::Empty; }
  /// The tensor; throws AutogradError if it was changed in place since. `owner` is the node that
  /// keeps it, `nr` which of the node's inputs or outputs it is.
  Tensor unpack(Node& owner, std::string_view op_name, uint32_t nr) const;
  /// Whether unpack would give the tensor as it is kept: no hook and no history is involved.
  bool plain() const { return state_ == State::Kept && (leaf_ || !GradMode::is_enabled()); }
  /// Throws AutogradError if the tensor was changed in place since it was saved.
  void check_version(std::string_view op_name) const;
  /// The tensor as kept, unchecked.
  const Tensor& peek() const { return tensor_; }
  void reset();

 private:
  enum class State : uint8_t { Empty, Kept, Packed };
  struct PackedState;
  void give_history(const Tensor& t, Node& owner, uint32_t nr) const;
  State state_ = State::Empty;
  Role role_ = Role::Other;
  bool leaf_ = false;  // kept as it is, with its own history
  uint32_t version_ = 0;
  Tensor tensor_;
  std::shared_ptr<PackedState> packed_;
};

/// Runs f without keeping what backward needs, and runs it again when backward needs it: same
/// gradients, bit for bit.
PELLUCID_API variable_list checkpoint(std::function<variable_list(const variable_list&)> f,
                                      const variable_list& inputs, bool preserve_rng_state = true);
PELLUCID_API Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& input);

/// Compares gradients of f at float64 inputs with central differences; throws AutogradError with
/// the worst entry, or returns false.
PELLUCID_API bool gradcheck(const std::function<variable_list(const variable_list&)>& f,
                            const variable_list& inputs, double eps = 1e-6, double atol = 1e-5,
                            double rtol = 1e-3, bool raise_exception = true);
/// The same for the gradients of the gradients.
PELLUCID_API bool gradgradcheck(const std::function<variable_list(const variable_list&)>& f,
                                const variable_list& inputs, double eps = 1e-6, double atol = 1e-5,
                                double rtol = 1e-3, bool raise_exception = true);

// Custom functions

/// What a custom function's forward hands to its backward.
struct PELLUCID_API AutogradContext {
  void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
  variable_list get_saved_variables() const;
  void mark_non_differentiable(const variable_list& outputs);
  void mark_dirty(const variable_list& inputs);
  void set_materialize_grads(bool on) { materialize_ = on; }
  bool needs_input_grad(size_t output_edge) const;
  std::map<std::string, Value> saved_data;  ///< what is no tensor to differentiate
  std::any saved_object;                    ///< and what is no Value either

  // The tape's.
  void save_variables(const NodeRef& owner, const variable_list& outputs);
  variable_list to_save_;
  std::vector<SavedVariable> saved_;
  std::vector<int> saved_output_nr_;
  std::vector<const detail::TensorImpl*> non_differentiable_, dirty_;
  std::vector<bool> needs_;
  bool materialize_ = true;
  bool freed_ = false;
  Node* node_ = nullptr;
};

namespace detail_fn {
using pellucid::detail::Ref;
struct PELLUCID_API CustomNode : Node {
  using Backward = variable_list (*)(AutogradContext*, variable_list);
  CustomNode(std::string name, Backward backward) : name_(std::move(name)), backward_(backward) {}
  std::string name() const override { return name_; }
  variable_list apply(variable_list&& grads) override;
  void release_variables() override;
  std::vector<SavedInfo> saved_tensors() const override;
  AutogradContext context;
  std::string name_;
  Backward backward_;
  std::vector<size_t> tensor_positions_;  ///< which arguments of forward are tensors
  size_t argument_count_ = 0;             ///< each tensor of a list counts as one
};
PELLUCID_API std::string demangle(const char* name);
PELLUCID_API variable_list wrap_outputs(const Ref<CustomNode>& node, const variable_list& inputs,
                                        variable_list outputs, bool needs_grad);
PELLUCID_API void collect_edges(CustomNode& node, const variable_list& inputs);
PELLUCID_API bool any_requires_grad(const variable_list& inputs);

/// Finds the tensors among the arguments of a function, also in lists, optionals and tuples: they
/// are what it is differentiated by. Each counts as one argument, and so does anything else.
struct ArgumentTensors {
  variable_list tensors;
  std::vector<size_t> positions;
  size_t count = 0;

  void add(const Tensor& t) {
    tensors.push_back(t);
    positions.push_back(count++);
  }
  template <class T> void add(const std::optional<T>& o) {
    if constexpr (holds_tensors<T>())
      if (o) return add(*o);
    ++count;  // as in libtorch, a place whose gradient is undefined
  }
  template <class... T> void add(const std::tuple<T...>& t) {
    if constexpr ((holds_tensors<T>() || ...))
      std::apply([this](const auto&... e) { (add(e), ...); }, t);
    else
      ++count;
  }
  template <class A, class B> void add(const std::pair<A, B>& p) {
    if constexpr (holds_tensors<A>() || holds_tensors<B>())
      add(p.first), add(p.second);
    else
      ++count;
  }
  template <class T> void add(const T& other) {
    if constexpr (std::is_base_of_v<Tensor, T>)
      add(static_cast<const Tensor&>(other));
    else if constexpr (holds_tensors<T>())
      for (const auto& e : other) add(e);
    else
      ++count;
  }

 private:
  template <class T> struct Holds : std::is_base_of<Tensor, T> {};
  template <class T> struct Holds<std::optional<T>> : Holds<T> {};
  template <class... T> struct Holds<std::tuple<T...>> : std::disjunction<Holds<T>...> {};
  template <class A, class B>
  struct Holds<std::pair<A, B>> : std::disjunction<Holds<A>, Holds<B>> {};
  /// Tensor, or a range, optional or tuple of what holds one.
  template <class T> static consteval bool holds_tensors() {
    if constexpr (Holds<T>::value)
      return true;
    else if constexpr (requires(const T& t) {
                         t.begin() != t.end();
                         *t.begin();
                       }) {
      using Element = std::decay_t<decltype(*std::declval<const T&>().begin())>;
      if constexpr (std::is_same_v<Element, T>)
        return false;  // a path's elements are paths
      else
        return holds_tensors<Element>();
    } else
      return false;
  }
};
}  // namespace detail_fn

/// A user's differentiable function: `struct F : Function<F>` with static forward(AutogradContext*,
/// …) and static backward(AutogradContext*, variable_list grad_outputs) returning one gradient per
/// argument of forward, and one for each tensor of an argument that is a list.
template <class T> struct Function {
  template <class X = T, class... Args> static auto apply(Args&&... args) {
    using detail_fn::CustomNode;
    auto node = detail::Ref<CustomNode>::adopt(new CustomNode(
        detail_fn::demangle(typeid(X).name()),
        [](AutogradContext* c, variable_list g) { return X::backward(c, std::move(g)); }));
    detail_fn::ArgumentTensors found;
    (found.add(std::as_const(args)), ...);
    node->tensor_positions_ = std::move(found.positions);
    node->argument_count_ = found.count;
    const variable_list inputs = std::move(found.tensors);
    const bool needs = GradMode::is_enabled() && detail_fn::any_requires_grad(inputs);
    node->context.node_ = node.get();
    detail_fn::collect_edges(*node, inputs);
    using Result = decltype(X::forward(&node->context, std::forward<Args>(args)...));
    variable_list outputs;
    {
      const AutoGradMode off(false);
      if constexpr (std::is_same_v<Result, Tensor>)
        outputs.push_back(X::forward(&node->context, std::forward<Args>(args)...));
      else
        outputs = X::forward(&node->context, std::forward<Args>(args)...);
    }
    outputs = detail_fn::wrap_outputs(node, inputs, std::move(outputs), needs);
    if constexpr (std::is_same_v<Result, Tensor>)
      return outputs[0];
    else
      return outputs;
  }
};

}  // namespace pellucid::autograd

namespace pellucid {
using autograd::AutoGradMode;
using autograd::GradMode;
using autograd::InferenceMode;
using autograd::NoGradGuard;
}  // namespace pellucid
