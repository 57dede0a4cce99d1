// Nodes of op calls, saved tensors, and the histories of results, views and tensors changed in
// place.
#include "core/tape.h"

#include <algorithm>
#include <utility>

#include "core/engine.h"
#include "core/registry.h"
#include "core/trace.h"
#include "core/vjp_tools.h"
#include "pellucid/ops.h"
#include "tensor/autograd_meta.h"

namespace pellucid {

void OwnedAttrs::assign(Attrs attrs) {
  size_t bytes = 0;
  for (const Attr& a : attrs) {
    if (a.kind() == Attr::Kind::Ints) bytes += a.ints().size() * sizeof(int64_t);
    if (a.kind() == Attr::Kind::Text) bytes += (a.text().size() + 7) / 8 * 8;
  }
  if (bytes) lists_ = std::make_unique<char[]>(bytes);
  char* at = lists_.get();
  attrs_.reserve(attrs.size());
  for (const Attr& a : attrs) {
    if (a.kind() == Attr::Kind::Ints) {
      const IntArrayRef v = a.ints();
      auto* copy = reinterpret_cast<int64_t*>(at);
      std::copy(v.begin(), v.end(), copy);
      attrs_.emplace_back(Attr(IntArrayRef(copy, v.size())));
      at += v.size() * sizeof(int64_t);
    } else if (a.kind() == Attr::Kind::Text) {
      const std::string_view v = a.text();
      std::copy(v.begin(), v.end(), at);
      attrs_.emplace_back(Attr(std::string_view(at, v.size())));
      at += (v.size() + 7) / 8 * 8;
    } else {
      attrs_.emplace_back(a);
    }
  }
}

Tensors no_gradient(const Vjp&) { return {}; }

// What a Vjp reads from its node. Tensors that had to be rebuilt are kept here while it runs, so
// that a formula may name one twice: unpacking may mean to compute a checkpointed part again.
struct Vjp::Source {
  struct Unpacked {
    const autograd::SavedVariable* saved = nullptr;
    Tensor tensor;
  };
  tape::OpNode& node;
  mutable detail::InlineVec<Unpacked, 32> unpacked;  // references stay valid while the vjp runs

  const Tensor& read(const autograd::SavedVariable& saved, uint32_t nr) const {
    const std::string_view name = info_of(node.op_).name;
    if (saved.plain()) {
      saved.check_version(name);
      return saved.peek();
    }
    for (const Unpacked& u : unpacked)
      if (u.saved == &saved) return u.tensor;
    PELLUCID_ASSERT(unpacked.size() < 32);
    return unpacked.emplace_back(Unpacked{&saved, saved.unpack(node, name, nr)}).tensor;
  }
};

Vjp::Vjp(const Source& source, Attrs attrs, std::span<const Tensor> g)
    : AttrReader(attrs), grad(g[0]), grads(g), source_(source) {}

size_t Vjp::input_count() const { return source_.node.inputs_.size(); }

bool Vjp::needs(size_t i) const { return autograd::edge_needed(source_.node.next_edges_[i]); }

const Tensor& Vjp::in(size_t i) const {
  const auto& saved = source_.node.saved_inputs_;
  PELLUCID_ASSERT(i < saved.size() && saved[i].defined());
  return source_.read(saved[i], static_cast<uint32_t>(i));
}

bool Vjp::has_in(size_t i) const {
  const auto& saved = source_.node.saved_inputs_;
  return i < saved.size() && saved[i].defined();
}

const Tensor& Vjp::out(size_t k) const {
  const auto& saved = source_.node.saved_outputs_;
  PELLUCID_ASSERT(k < saved.size() && saved[k].defined());
  return source_.read(saved[k], static_cast<uint32_t>(k));
}

IntArrayRef Vjp::in_sizes(size_t i) const { return source_.node.inputs_[i].sizes; }
DType Vjp::in_dtype(size_t i) const { return source_.node.inputs_[i].dtype; }
uint64_t Vjp::seed() const { return source_.node.seed_; }
uint64_t Vjp::random_offset() const { return source_.node.random_offset_; }

Tensor Vjp::grad_or_zeros(size_t k) const {
  if (grads[k].defined()) return grads[k];
  const autograd::TensorFacts& facts = source_.node.outputs_[k];
  return zeros(facts.sizes, facts.dtype);
}

namespace tape {

using autograd::Edge;
using autograd::NodeRef;
using autograd::SavedVariable;
using autograd::variable_list;

bool requires_grad(const Tensor& t) {
  const detail::TensorImpl* impl = t.impl_ref().get();
  if (!impl) return false;
  if (impl->meta && (impl->meta->requires_grad || impl->meta->grad_fn)) return true;
  // A view of a tensor that gained a history by an in-place change after the view was taken.
  return impl->base && impl->base->meta && impl->base->meta->grad_fn && !impl->no_grad_view &&
         is_floating(impl->dtype);
}

bool exclusively_owned(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  return t.use_count() == 1 && impl.storage.use_count() == 1 && !impl.storage->borrowed &&
         !impl.base && (impl.is_contiguous() || impl.is_channels_last()) &&
         !(impl.meta && impl.meta->grad_fn);
}

constinit thread_local const Tensor* last_used = nullptr;
constinit thread_local const OpNode* applying = nullptr;

const Tensor& last_use(const Tensor& grad) {
  if (!autograd::GradMode::is_enabled()) last_used = &grad;
  return grad;
}

namespace {
/// Says which node's vjp runs until the end of the scope.
struct Applying {
  explicit Applying(const OpNode* node) : outer(std::exchange(applying, node)) {}
  ~Applying() {
    applying = outer;
    last_used = nullptr;
  }
  Applying(const Applying&) = delete;
  const OpNode* outer;
};
}  // namespace

std::string OpNode::name() const { return info_of(op_).node_name; }

variable_list OpNode::apply(variable_list&& grads) {
  PELLUCID_CHECK(
      !freed_, AutogradError,
      "{}: backward through this graph ran already and what it had saved was freed. Pass "
      "retain_graph = true to the first backward or grad if you need it twice.",
      name());
  bool any = false;
  for (const Tensor& g : grads) any |= g.defined();
  if (!any) return variable_list(next_edges_.size());
  if (grads.size() == 1 && !grads[0].defined())
    grads[0] = zeros(outputs_[0].sizes, outputs_[0].dtype);
  const Vjp::Source source{*this, {}};
  const Applying scope(this);
  variable_list result = op_.vjp(Vjp(source, attrs_.view(), grads));
  PELLUCID_CHECK(result.size() == next_edges_.size(), AutogradError,
                 "{}: the vjp returned {} gradients for {} inputs.", name(), result.size(),
                 next_edges_.size());
  for (size_t i = 0; i < result.size(); ++i) {
    Tensor& g = result[i];
    if (!g.defined() || !next_edges_[i].is_valid()) continue;
    if (g.sizes() != inputs_[i].sizes.ref())
      g = sum_to_size(g, inputs_[i].sizes);  // the forward broadcast it
    if (g.dtype() != inputs_[i].dtype) g = g.to(inputs_[i].dtype);
  }
  return result;
}

void OpNode::release_variables() {
  saved_inputs_.clear();
  saved_outputs_.clear();
  freed_ = op_.saved.inputs || op_.saved.outputs;
}

std::vector<autograd::SavedInfo> OpNode::saved_tensors() const {
  std::vector<autograd::SavedInfo> out;
  const OpInfo& info = info_of(op_);
  std::vector<std::string> names;
  const size_t extra = inputs_.size() - static_cast<size_t>(info.tensor_args);
  for (const Arg& a : info.args) {
    if (a.type == ArgType::Tensor) names.push_back(a.name);
    if (a.type == ArgType::TensorList)
      for (size_t i = 0; i < extra + 1; ++i) names.push_back(fmt::format("{}[{}]", a.name, i));
  }
  for (size_t i = 0; i < saved_inputs_.size(); ++i)
    if (saved_inputs_[i].defined())
      out.push_back({i < names.size() ? names[i] : "input", saved_inputs_[i].peek()});
  for (size_t k = 0; k < saved_outputs_.size(); ++k)
    if (saved_outputs_[k].defined()) {
      const std::string& n = info.output_names[k];
      out.push_back({n.empty()            ? "result"
                     : n.starts_with('_') ? n.substr(1)
                                          : n,
                     saved_outputs_[k].peek()});
    }
  return out;
}

detail::Ref<OpNode> prepare(const Call& c, bool in_place) {
  auto node = detail::Ref<OpNode>::adopt(new OpNode(c.op()));
  const size_t n = c.input_count();
  node->next_edges_.reserve(n);
  node->inputs_.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const Tensor& t = c.in(i);
    Edge edge = t.defined() ? autograd::gradient_edge(t) : Edge();
    node->next_edges_.emplace_back(std::move(edge));
    if (t.defined())
      node->inputs_.emplace_back(autograd::TensorFacts{t.impl().sizes, t.dtype()});
    else
      node->inputs_.emplace_back();
  }
  node->attrs_.assign(c.attrs());
  const Saved& saved = c.op().saved;
  if (saved.inputs) {
    const auto has = [](uint32_t mask, size_t i) {
      return mask == Saved::kAll || (i < 32 && (mask >> i & 1));
    };
    size_t needing = 0;  // of the listed inputs
    for (size_t i = 0; i < n; ++i)
      needing += has(saved.inputs, i) && node->next_edges_[i].is_valid();
    node->saved_inputs_.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      const Tensor& t = c.in(i);
      const bool wanted = has(saved.inputs, i) && t.defined() &&
                          (!has(saved.crossed, i) || needing > node->next_edges_[i].is_valid());
      if (!wanted)
        node->saved_inputs_.emplace_back();
      else  // what is about to be overwritten is copied first
        node->saved_inputs_.emplace_back(in_place && i == 0 ? t.detach().clone() : t,
                                         node->next_edges_[i].is_valid()
                                             ? SavedVariable::Role::NodeInput
                                             : SavedVariable::Role::Other);
    }
  }
  if (autograd::AnomalyMode::is_enabled()) node->extras().forward_trace = describe_call(c);
  return node;
}

void drop_keeper(detail::AutogradMeta& meta) {
  if (!meta.keeper || !meta.grad_fn) return;
  std::erase(meta.grad_fn->extras().retain_grad[meta.output_nr], meta.keeper);
}

void set_history(const Tensor& result, const NodeRef& node, uint32_t output_nr) {
  detail::AutogradMeta& meta = detail::meta_of(result);
  if (meta.keeper) [[unlikely]] {  // a retained gradient is that of the tensor as it is now
    drop_keeper(meta);
    node->extras().retain_grad[output_nr].push_back(meta.keeper);
  }
  meta.grad_fn = node;
  meta.output_nr = output_nr;
  meta.grad_fn_version = result._version();
}

bool is_grad_leaf(const detail::TensorImpl& t) {
  return t.meta && t.meta->requires_grad && !t.meta->grad_fn;
}

void check_leaf(const Tensor& self, std::string_view op_name) {
  if (!autograd::GradMode::is_enabled()) return;
  const detail::TensorImpl& impl = self.impl();
  PELLUCID_CHECK(
      !is_grad_leaf(impl), AutogradError,
      "{}_: a leaf tensor that requires a gradient is being changed in place ({}). Do it under "
      "NoGradGuard, or on a clone.",
      op_name, describe(self));
  PELLUCID_CHECK(!(impl.base && is_grad_leaf(*impl.base)), AutogradError,
                 "{}_: a view of a leaf tensor that requires a gradient is being changed in place "
                 "({}). Do it under NoGradGuard, or on a clone.",
                 op_name, describe(self));
}

void check_in_place(const Tensor& self, std::string_view op_name, bool recording) {
  const detail::TensorImpl& impl = self.impl();
  check_leaf(self, op_name);
  if (autograd::GradMode::is_enabled()) {
    PELLUCID_CHECK(!(recording && impl.base && impl.no_grad_view), AutogradError,
                   "{}_: this view ({}) was taken while gradients were off, so a recorded change "
                   "of it cannot be "
                   "followed. Take the view with gradients on, or change a clone.",
                   op_name, describe(self));
  }
  PELLUCID_CHECK(
      !(impl.inference && !autograd::InferenceMode::is_enabled() && recording), AutogradError,
      "{}_: a tensor made in inference mode cannot be changed in a recorded computation; clone it.",
      op_name);
  for (size_t d = 0; d < impl.sizes.size(); ++d)
    PELLUCID_CHECK(impl.strides[d] != 0 || impl.sizes[d] <= 1 || self.numel() == 0, ValueError,
                   "{}_: several elements of the written tensor share one memory location (sizes "
                   "{}, strides {}). "
                   "Clone it first.",
                   op_name, impl.sizes, impl.strides);
}

namespace {

// The node of a base of which a view was changed: the view's part of the gradient goes through
// `fn`.
struct CopySlices final : autograd::Node {
  std::string name() const override { return "CopySlices"; }

  variable_list apply(variable_list&& grads) override {
    PELLUCID_CHECK(
        fn, AutogradError,
        "CopySlices: backward through this graph ran already; pass retain_graph = true.");
    variable_list out(next_edges_.size());
    if (!grads[0].defined()) return out;
    Tensor whole = empty_strided(base_sizes, base_strides, grads[0].dtype());
    whole.copy_(grads[0]);
    const Tensor part = whole.as_strided(view_sizes, view_strides, view_offset - base_offset);
    variable_list given(1);
    given[0] = part.clone();
    variable_list inner = fn->apply(std::move(given));
    for (size_t i = 1; i < inner.size(); ++i) out[i] = inner[i];
    if (inner[0].defined())
      part.copy_(inner[0]);
    else
      part.zero_();
    out[0] = whole;
    return out;
  }
  void release_variables() override {
    if (fn) fn->release_variables();
    fn.reset();
  }
  std::vector<autograd::SavedInfo> saved_tensors() const override {
    return fn ? fn->saved_tensors() : std::vector<autograd::SavedInfo>();
  }

  NodeRef fn;
  Dims base_sizes, base_strides, view_sizes, view_strides;
  int64_t base_offset = 0, view_offset = 0;
};

}  // namespace

void rebase_history(const Tensor& self, const NodeRef& node) {
  const detail::TensorImpl& impl = self.impl();
  if (!impl.base) {
    set_history(self, node, 0);
    return;
  }
  const Tensor base(impl.base);
  auto slices = detail::Ref<CopySlices>::adopt(new CopySlices);
  slices->next_edges_.reserve(node->next_edges_.size());
  slices->next_edges_.emplace_back(autograd::gradient_edge(base));
  for (size_t i = 1; i < node->next_edges_.size(); ++i)
    slices->next_edges_.emplace_back(node->next_edges_[i]);
  // The inner node must compute the gradient of the view's old values whenever the base wants it.
  if (!node->next_edges_[0].is_valid()) node->next_edges_[0] = slices->next_edges_[0];
  slices->fn = node;
  slices->base_sizes = base.impl().sizes;
  slices->base_strides = base.impl().strides;
  slices->base_offset = base.impl().offset;
  slices->view_sizes = impl.sizes;
  slices->view_strides = impl.strides;
  slices->view_offset = impl.offset;
  slices->add_output(base);
  set_history(base, slices, 0);
}

}  // namespace tape

namespace autograd {

namespace {

// The grad_fn of a view whose base changed since: the base's history, seen through the view's
// geometry.
void refresh_view(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  const AutoGradMode on(true);
  const Tensor again = Tensor(impl.base).as_strided(impl.sizes, impl.strides, impl.offset);
  const detail::AutogradMeta& fresh = *again.impl().meta;
  tape::set_history(t, fresh.grad_fn, fresh.output_nr);
}

}  // namespace

Edge gradient_edge(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  if (impl.base && impl.base->meta && impl.base->meta->grad_fn && !impl.no_grad_view &&
      is_floating(impl.dtype) &&
      (!impl.meta || impl.meta->grad_fn_version != t._version() ||
       (!impl.meta->grad_fn && !impl.meta->requires_grad)))
    refresh_view(t);
  detail::AutogradMeta* meta = impl.meta;
  if (!meta) return {};
  if (meta->grad_fn) return {meta->grad_fn, meta->output_nr};
  if (!meta->requires_grad) return {};
  const std::lock_guard lock(detail::leaf_lock(&impl));
  if (AccumulateGrad* alive = meta->accumulator) {
    // The last reference may be going on another thread: take one only while some are left.
    uint32_t n = alive->refs.load(std::memory_order_relaxed);
    while (n != 0 && !alive->refs.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {}
    if (n != 0) return {NodeRef::adopt(alive), 0};
  }
  auto made = detail::Ref<AccumulateGrad>::adopt(new AccumulateGrad(t));
  meta->accumulator = made.get();
  return {made, 0};
}

// Saved tensors

struct SavedVariable::PackedState {
  std::any value;
  SavedTensorsHooks::Unpack unpack;
  Edge edge;  // the history of a tensor that is neither an input nor an output of its node
};

namespace {
struct HookPair {
  SavedTensorsHooks::Pack pack;
  SavedTensorsHooks::Unpack unpack;
};
// The innermost pair; a pointer costs nothing to look at.
constinit thread_local std::vector<HookPair>* saved_hooks = nullptr;
}  // namespace

SavedTensorsHooks::SavedTensorsHooks(Pack pack, Unpack unpack) {
  if (!saved_hooks) saved_hooks = new std::vector<HookPair>;
  saved_hooks->push_back({std::move(pack), std::move(unpack)});
}
SavedTensorsHooks::~SavedTensorsHooks() {
  saved_hooks->pop_back();
  if (saved_hooks->empty()) delete std::exchange(saved_hooks, nullptr);
}

SavedVariable::SavedVariable(const Tensor& t, Role role) : role_(role), version_(t._version()) {
  PELLUCID_CHECK(
      !t.is_inference(), AutogradError,
      "a tensor made in inference mode ({}) cannot be saved for backward; clone it outside.",
      describe(t));
  if (saved_hooks) [[unlikely]] {
    const HookPair hooks = saved_hooks->back();
    const AutoGradMode off(false);
    packed_ = std::make_shared<PackedState>(PackedState{
        hooks.pack(t.detach()), hooks.unpack, role == Role::Other ? gradient_edge(t) : Edge()});
    state_ = State::Packed;
    return;
  }
  // An output is kept without its history, or it would own the node that owns it. So is an input
  // that may get another history by an in-place change: x.copy_(f(x)) would close a circle through
  // f's node.
  state_ = State::Kept;
  const detail::AutogradMeta* meta = t.impl().meta;
  leaf_ = role != Role::Output && meta && meta->requires_grad && !meta->grad_fn;
  if (leaf_) {
    tensor_ = t;
    return;
  }
  tensor_ = Tensor(detail::alias_impl(t.impl()));
  tensor_.impl().wrapped_number = t.impl().wrapped_number;
  if (role == Role::Other && tape::requires_grad(t))
    packed_ = std::make_shared<PackedState>(PackedState{{}, {}, gradient_edge(t)});
}

void SavedVariable::give_history(const Tensor& t, Node& owner, uint32_t nr) const {
  if (role_ == Role::Output) return tape::set_history(t, NodeRef::share(&owner), nr);
  const Edge* edge = role_ == Role::NodeInput ? &owner.next_edges_[nr]
                     : packed_                ? &packed_->edge
                                              : nullptr;
  if (edge && edge->is_valid()) tape::set_history(t, edge->function, edge->input_nr);
}

void SavedVariable::check_version(std::string_view op_name) const {
  PELLUCID_CHECK(tensor_._version() == version_, AutogradError,
                 "{}: a tensor that backward needs ({}, {}) was changed in place: it is at version "
                 "{}, version {} was saved. Change a clone instead, or use the result of the "
                 "change.",
                 op_name, describe(tensor_), role_ == Role::Output ? "its result" : "its input",
                 tensor_._version(), version_);
}

Tensor SavedVariable::unpack(Node& owner, std::string_view op_name, uint32_t nr) const {
  if (state_ == State::Packed) {
    Tensor t(detail::alias_impl(packed_->unpack(packed_->value).impl()));
    give_history(t, owner, nr);
    return t;
  }
  check_version(op_name);
  if (plain()) return tensor_;  // histories are read only where gradients of gradients are recorded
  Tensor t(detail::alias_impl(tensor_.impl()));
  t.impl().wrapped_number = tensor_.impl().wrapped_number;
  give_history(t, owner, nr);
  return t;
}

void SavedVariable::reset() {
  state_ = State::Empty;
  tensor_.reset();
  packed_.reset();
}

}  // namespace autograd
}  // namespace pellucid
