// Nodes of op calls, saved tensors, and the histories of results, views and tensors changed in
// place.
#include "core/tape.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/autograd_meta.h"
#include "core/call_text.h"
#include "core/engine.h"
#include "core/registry.h"
#include "core/vjp_tools.h"
#include "pellucid/ops.h"
#include "tensor/layout.h"
#include "tensor/pending.h"

namespace pellucid {

void OwnedAttrs::assign(Attrs attrs) {
  size_t bytes = 0;
  for (const Attr& a : attrs) {
    if (a.kind() == Attr::Kind::Ints) bytes += a.ints().size() * sizeof(int64_t);
    if (a.kind() == Attr::Kind::Text) bytes += (a.text().size() + 7) / 8 * 8;
  }
  if (bytes) lists_ = std::make_unique<char[]>(bytes);
  char* at = lists_.get();
  attrs_.clear();
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
  if (follows_base(*impl)) return true;
  const detail::AutogradMeta* meta = detail::meta_if(*impl);
  return meta && (meta->requires_grad || meta->grad_fn);
}

Tensor settled(const Tensor& t) {
  if (!t.defined() || !detail::hides_layout(t.impl())) return t;
  return Tensor(detail::alias_impl(t.impl()));
}

bool follows_base(const detail::TensorImpl& t) {
  if (!t.base || t.no_grad_view || !is_floating(t.dtype)) return false;
  const detail::AutogradMeta* base = detail::meta_if(*t.base);
  return base && base->grad_fn;
}

// Acquire: another thread's last use of what it let go is over.
uint32_t owners(const detail::RefCounted& counted) {
  return counted.refs.load(std::memory_order_acquire);
}

bool exclusively_owned(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  return owners(impl) == 1 && detail::holders(*impl.storage) == 1 && !impl.storage->borrowed &&
         !impl.base && (impl.is_contiguous() || impl.is_channels_last()) &&
         !(impl.meta && impl.meta->grad_fn);
}

constinit thread_local LastUse* last_uses = nullptr;
constinit thread_local const OpNode* applying = nullptr;

LastUse::LastUse(const Tensor& grad) : tensor_(grad), outer_(std::exchange(last_uses, this)) {}
LastUse::~LastUse() { last_uses = outer_; }

const LastUse* claim_last_use(Inputs inputs) {
  for (LastUse* use = last_uses; use; use = use->outer_) {
    const auto place = std::find(inputs.begin(), inputs.end(), &use->tensor_);
    if (place == inputs.end()) continue;
    return std::exchange(use->claimed_, true) ? nullptr : use;
  }
  return nullptr;
}

namespace {
/// Says which node's vjp runs until the end of the scope.
struct Applying {
  explicit Applying(const OpNode* node) : outer(std::exchange(applying, node)) {}
  ~Applying() { applying = outer; }
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
    if (g.defined() && next_edges_[i].is_valid())
      autograd::fit_gradient(*this, i, g, inputs_[i]);  // the forward may have broadcast it
  }
  return result;
}

void OpNode::release_variables() {
  saved_inputs_.clear();
  saved_outputs_.clear();
  freed_ = op_.saved.inputs || op_.saved.outputs;
}

std::vector<autograd::SavedInfo> OpNode::saved_tensors() const {
  const autograd::InUse in_use(*this);
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
      out.push_back({i < names.size() ? names[i] : "input", settled(saved_inputs_[i].peek())});
  for (size_t k = 0; k < saved_outputs_.size(); ++k)
    if (saved_outputs_[k].defined()) {
      const std::string& n = info.output_names[k];
      out.push_back({n.empty()            ? "result"
                     : n.starts_with('_') ? n.substr(1)
                                          : n,
                     settled(saved_outputs_[k].peek())});
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
  autograd::Node::Extras& e = meta.grad_fn->extras();
  const std::lock_guard lock(e.mutex);
  std::erase(e.retain_grad[meta.output_nr], meta.keeper);
}

void set_history(const Tensor& result, const NodeRef& node, uint32_t output_nr) {
  detail::AutogradMeta& meta = detail::meta_of(result);
  if (meta.keeper) [[unlikely]] {  // a retained gradient is that of the tensor as it is now
    drop_keeper(meta);
    autograd::Node::Extras& e = node->extras();
    const std::lock_guard lock(e.mutex);
    e.retain_grad[output_nr].push_back(meta.keeper);
  }
  meta.grad_fn = node;
  meta.output_nr = output_nr;
  meta.grad_fn_version = result._version();
}

bool is_grad_leaf(const detail::TensorImpl& t) {
  const detail::AutogradMeta* meta = detail::meta_if(t);
  return meta && meta->requires_grad && !meta->grad_fn;
}

void check_leaf(const Tensor& self, std::string_view op_name) {
  const detail::TensorImpl& impl = self.impl();
  PELLUCID_CHECK(
      !impl.inference || autograd::InferenceMode::is_enabled(), AutogradError,
      "{}_: a tensor made in inference mode ({}) cannot be changed outside of it; change "
      "a clone.",
      op_name, describe(self));
  if (!autograd::tracks()) return;
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

void check_in_place(const Tensor& self, std::string_view op_name, bool tracked, bool one_value) {
  const detail::TensorImpl& impl = self.impl();
  check_leaf(self, op_name);
  PELLUCID_CHECK(!(tracked && impl.base && impl.no_grad_view), AutogradError,
                 "{}_: this view ({}) was taken while gradients were off, or is what a custom "
                 "Function returned of its input, so a change of it cannot be tracked. Take the "
                 "view with gradients on, or change a clone.",
                 op_name, describe(self));
  for (size_t d = 0; d < impl.sizes.size() && !one_value; ++d)
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
    if (autograd::edge_needed(next_edges_[0]))
      autograd::want_gradient(fn->next_edges_[self_input]);  // it goes on into the base's
    variable_list inner = fn->apply(std::move(given));
    for (size_t i = 0; i < inner.size(); ++i) {
      if (i == self_input) continue;
      out[i < self_input ? i + 1 : i] = inner[i];
    }
    if (inner[self_input].defined()) {
      autograd::fit_gradient(*fn, self_input, inner[self_input], {view_sizes, part.dtype()});
      part.copy_(inner[self_input]);
    } else {
      part.zero_();
    }
    out[0] = whole;
    return out;
  }
  void release_variables() override {
    if (fn) fn->release_variables();
    fn.reset();
  }
  std::vector<autograd::SavedInfo> saved_tensors() const override {
    const autograd::InUse in_use(*this);
    return fn ? fn->saved_tensors() : std::vector<autograd::SavedInfo>();
  }

  NodeRef fn;
  size_t self_input = 0;  // which input of fn is the view's old value
  Dims base_sizes, base_strides, view_sizes, view_strides;
  int64_t base_offset = 0, view_offset = 0;
};

}  // namespace

void rebase_history(const Tensor& self, const NodeRef& node, size_t self_input) {
  const detail::TensorImpl& impl = self.impl();
  if (!impl.base) {
    set_history(self, node, 0);
    return;
  }
  const Tensor base(impl.base);
  auto slices = detail::Ref<CopySlices>::adopt(new CopySlices);
  slices->next_edges_.reserve(node->next_edges_.size());
  slices->next_edges_.emplace_back(autograd::gradient_edge(base));
  for (size_t i = 0; i < node->next_edges_.size(); ++i)
    if (i != self_input) slices->next_edges_.emplace_back(node->next_edges_[i]);
  // The inner node must compute the gradient of the view's old values whenever the base wants it.
  Edge& old_values = node->next_edges_[self_input];
  if (!old_values.is_valid()) old_values = slices->next_edges_[0];
  slices->fn = node;
  slices->self_input = self_input;
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

// Whether the history of a view whose base has one is that of the base as it is now.
bool up_to_date(const detail::AutogradMeta& meta, const Tensor& t) {
  return meta.grad_fn_version == t._version() && (meta.grad_fn || meta.requires_grad);
}

// The edge of a view whose base has a history, which is read and made anew under the view's lock:
// several threads may be the first to ask after a change of the base. Nothing for a leaf.
Edge view_edge(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  detail::AutogradMeta& meta = detail::meta_of(t);
  {
    const std::lock_guard lock(detail::leaf_lock(&impl));
    if (up_to_date(meta, t)) return {meta.grad_fn, meta.output_nr};
  }
  // The base's history, seen through the view's geometry. Made without the lock: it asks for the
  // base's edge.
  const InferenceMode off(false);
  const Tensor again = Tensor(impl.base).as_strided(impl.sizes, impl.strides, impl.offset);
  const detail::AutogradMeta& fresh = *again.impl().meta;
  NodeRef before;  // what is replaced ends behind the lock
  const std::lock_guard lock(detail::leaf_lock(&impl));
  if (!up_to_date(meta, t)) {
    before = meta.grad_fn;
    tape::set_history(t, fresh.grad_fn, fresh.output_nr);
  }
  return {meta.grad_fn, meta.output_nr};
}

}  // namespace

Edge gradient_edge(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  if (tape::follows_base(impl)) {
    if (Edge edge = view_edge(t); edge.is_valid()) return edge;
  }
  detail::AutogradMeta* meta = detail::meta_if(impl);
  if (!meta) return {};
  if (meta->grad_fn) return {meta->grad_fn, meta->output_nr};
  if (!meta->requires_grad) return {};
  const std::lock_guard lock(detail::leaf_lock(&impl));
  if (meta->accumulator) {
    if (NodeRef alive = share_if_alive(meta->accumulator)) return {std::move(alive), 0};
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

SavedVariable::SavedVariable(const Tensor& t, Role role) : role_(role) {
  PELLUCID_CHECK(
      !t.is_inference(), AutogradError,
      "a tensor made in inference mode ({}) cannot be saved for backward; clone it outside.",
      describe(t));
  version_ = tape::settled(t)._version();
  if (saved_hooks) [[unlikely]] {
    const HookPair hooks = saved_hooks->back();
    const AutoGradMode off(false);
    packed_ = std::make_shared<PackedState>(PackedState{
        hooks.pack(t.detach()), hooks.unpack, role == Role::Other ? gradient_edge(t) : Edge()});
    PELLUCID_CHECK(tape::settled(t)._version() == version_, AutogradError,
                   "a hook that packs saved tensors changed its argument ({}) in place; pack a "
                   "clone of it.",
                   describe(t));
    state_ = State::Packed;
    return;
  }
  // An output is kept without its history, or it would own the node that owns it. So is an input
  // that may get another history by an in-place change: x.copy_(f(x)) would close a circle through
  // f's node.
  state_ = State::Kept;
  leaf_ = role != Role::Output && tape::is_grad_leaf(t.impl());
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
    const Tensor unpacked = packed_->unpack(packed_->value);
    PELLUCID_CHECK(unpacked.defined(), TypeError,
                   "{}: the hook that unpacks saved tensors returned an undefined tensor; it must "
                   "return the one that was packed.",
                   op_name);
    Tensor t(detail::alias_impl(unpacked.impl()));
    give_history(t, owner, nr);
    return t;
  }
  check_version(op_name);
  // Histories are read only where gradients of gradients are tracked.
  if (plain()) return tape::settled(tensor_);
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
