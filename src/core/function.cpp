// Custom functions: the context that forward hands to backward, and the node behind apply.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/autograd_meta.h"
#include "core/engine.h"
#include "core/tape.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::autograd {

variable_list AutogradContext::get_saved_variables() const {
  std::optional<InUse> in_use;  // another thread's backward may free what was saved
  if (node_) in_use.emplace(*node_);
  PELLUCID_CHECK(!freed_, AutogradError,
                 "{}: what was saved for backward was freed already. Pass retain_graph = true to "
                 "the first backward.",
                 node_ ? node_->name() : "Function");
  variable_list out;
  for (size_t i = 0; i < saved_.size(); ++i)
    out.push_back(saved_[i].defined()
                      ? saved_[i].unpack(*node_, node_->name(),
                                         static_cast<uint32_t>(std::max(saved_output_nr_[i], 0)))
                      : Tensor());
  return out;
}

void AutogradContext::mark_non_differentiable(const variable_list& outputs) {
  for (const Tensor& t : outputs) non_differentiable_.push_back(t.impl_ref().get());
}

void AutogradContext::mark_dirty(const variable_list& inputs) {
  for (const Tensor& t : inputs) dirty_.push_back(t.impl_ref().get());
}

bool AutogradContext::needs_input_grad(size_t i) const {
  return node_ && i < node_->next_edges_.size() && edge_needed(node_->next_edges_[i]);
}

void AutogradContext::save_variables(const NodeRef&, const variable_list& outputs) {
  for (const Tensor& t : to_save_) {
    int output_nr = -1;
    for (size_t k = 0; k < outputs.size(); ++k)
      if (t.defined() && outputs[k].is_same(t)) output_nr = static_cast<int>(k);
    saved_output_nr_.push_back(output_nr);
    if (t.defined())
      saved_.emplace_back(
          t, output_nr >= 0 ? SavedVariable::Role::Output : SavedVariable::Role::Other);
    else
      saved_.emplace_back();
  }
  to_save_.clear();
}

namespace detail_fn {

std::string demangle(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string s = status == 0 ? text : name;
  std::free(text);
  const size_t colon = s.rfind("::");
  return (colon == std::string::npos ? s : s.substr(colon + 2)) + "Backward";
}

bool any_requires_grad(const variable_list& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& t) { return t.defined() && tape::requires_grad(t); });
}

void collect_edges(CustomNode& node, const variable_list& inputs) {
  node.next_edges_.reserve(inputs.size());
  for (const Tensor& t : inputs)
    node.next_edges_.emplace_back(t.defined() ? gradient_edge(t) : Edge());
}

namespace {

bool listed(const std::vector<const detail::TensorImpl*>& list, const Tensor& t) {
  return std::find(list.begin(), list.end(), t.impl_ref().get()) != list.end();
}

// What forward says it changed in place must be inputs that may be changed, and be returned.
void check_dirty(const CustomNode& node, const variable_list& inputs, const variable_list& outputs,
                 bool needs_grad) {
  const std::vector<const detail::TensorImpl*>& dirty = node.context.dirty_;
  for (const detail::TensorImpl* d : dirty)
    PELLUCID_CHECK(std::any_of(outputs.begin(), outputs.end(),
                               [d](const Tensor& t) { return t.impl_ref().get() == d; }),
                   AutogradError,
                   "{}: forward marked a tensor as dirty that it does not return; whatever it "
                   "changes in place must be one of its results.",
                   node.name());
  for (const Tensor& t : inputs) {
    if (!t.defined() || !listed(dirty, t)) continue;
    tape::check_in_place(t, node.name(), needs_grad);
    PELLUCID_CHECK(!needs_grad || !t.impl().base || outputs.size() == 1, AutogradError,
                   "{}: forward changed a view ({}) in place and returned {} tensors; return the "
                   "view alone, or change a clone.",
                   node.name(), describe(t), outputs.size());
    t.impl().bump_version();
  }
}

// An input that forward returned as it is: a view of it, whose history is the function's. A change
// of the view in place would change the input and not the input's history, so it is refused.
Tensor input_as_output(const Tensor& input) {
  input.expose();
  Tensor t(detail::alias_impl(input.impl()));
  t.impl().base = input.impl().base ? input.impl().base : input.impl_ref();
  t.impl().no_grad_view = true;
  return t;
}

}  // namespace

variable_list wrap_outputs(const Ref<CustomNode>& node, const variable_list& inputs,
                           variable_list outputs, bool needs_grad) {
  AutogradContext& ctx = node->context;
  check_dirty(*node, inputs, outputs, needs_grad);
  node->outputs_.reserve(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor& t = outputs[k];
    if (!t.defined()) {
      node->outputs_.emplace_back();
      continue;
    }
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& i) { return i.is_same(t); });
    const bool is_input = input != inputs.end();
    const bool dirty = is_input && listed(ctx.dirty_, t);
    const bool tracked = needs_grad && !listed(ctx.non_differentiable_, t) && t.is_floating_point();
    if (!tracked) {  // without a history, also where forward gave it one of its own
      if (tape::requires_grad(t)) t = t.detach();
    } else if (is_input && !dirty) {
      t = input_as_output(t);
    }
    node->add_output(t);
    if (!tracked) continue;
    if (dirty)
      tape::rebase_history(t, node, static_cast<size_t>(input - inputs.begin()));
    else
      tape::set_history(t, node, static_cast<uint32_t>(k));
  }
  if (needs_grad)
    ctx.save_variables(node, outputs);
  else
    ctx.to_save_.clear();
  return outputs;
}

variable_list CustomNode::apply(variable_list&& grads) {
  if (context.materialize_)
    for (size_t k = 0; k < grads.size(); ++k)
      if (!grads[k].defined()) grads[k] = zeros(outputs_[k].sizes, outputs_[k].dtype);
  variable_list all = backward_(&context, std::move(grads));
  // As in libtorch, more than there are arguments are accepted where they are undefined.
  while (all.size() > argument_count_ && !all.back().defined()) all.pop_back();
  PELLUCID_CHECK(
      all.size() == argument_count_, AutogradError,
      "{}: backward returned an incorrect number of gradients (expected {}, got {}): one "
      "for each argument of forward, undefined for an argument without one.",
      name_, argument_count_, all.size());
  variable_list out;
  size_t next = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (next < tensor_positions_.size() && tensor_positions_[next] == i) {
      out.push_back(std::move(all[i]));
      ++next;
      continue;
    }
    PELLUCID_CHECK(!all[i].defined(), AutogradError,
                   "{}: backward returned a gradient for argument {} of forward, which is no "
                   "tensor; return an undefined Tensor there.",
                   name_, i);
  }
  return out;
}

void CustomNode::release_variables() {
  for (SavedVariable& s : context.saved_) s.reset();
  context.freed_ = !context.saved_.empty();
}

std::vector<SavedInfo> CustomNode::saved_tensors() const {
  const InUse in_use(*this);
  std::vector<SavedInfo> out;
  for (size_t i = 0; i < context.saved_.size(); ++i)
    if (context.saved_[i].defined())
      out.push_back({fmt::format("saved[{}]", i), tape::settled(context.saved_[i].peek())});
  return out;
}

}  // namespace detail_fn
}  // namespace pellucid::autograd
