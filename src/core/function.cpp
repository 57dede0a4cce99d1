// Custom functions: the context that forward hands to backward, and the node behind apply.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "core/engine.h"
#include "core/tape.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/autograd_meta.h"

namespace pellucid::autograd {

variable_list AutogradContext::get_saved_variables() const {
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

variable_list wrap_outputs(const Ref<CustomNode>& node, const variable_list& inputs,
                           variable_list outputs, bool needs_grad) {
  AutogradContext& ctx = node->context;
  const auto listed = [](const auto& list, const Tensor& t) {
    return std::find(list.begin(), list.end(), t.impl_ref().get()) != list.end();
  };
  for (const Tensor& t : inputs)
    if (t.defined() && listed(ctx.dirty_, t)) t.impl().bump_version();
  node->outputs_.reserve(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor& t = outputs[k];
    if (!t.defined()) {
      node->outputs_.emplace_back();
      continue;
    }
    const bool is_input =
        std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& i) { return i.is_same(t); });
    if (is_input && !listed(ctx.dirty_, t)) t = Tensor(detail::alias_impl(t.impl()));
    node->add_output(t);
    if (!needs_grad || listed(ctx.non_differentiable_, t) || !t.is_floating_point()) continue;
    if (is_input && listed(ctx.dirty_, t))
      tape::rebase_history(t, node);
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
  PELLUCID_CHECK(all.size() >= argument_count_ || all.size() == tensor_positions_.size(),
                 AutogradError,
                 "{}: backward returned {} gradients for the {} arguments of forward; return an "
                 "undefined Tensor for "
                 "an argument without one.",
                 name_, all.size(), argument_count_);
  variable_list out;
  const bool one_each = all.size() >= argument_count_;
  for (size_t i = 0; i < tensor_positions_.size(); ++i)
    out.push_back(all[one_each ? tensor_positions_[i] : i]);
  return out;
}

void CustomNode::release_variables() {
  for (SavedVariable& s : context.saved_) s.reset();
  context.freed_ = !context.saved_.empty();
}

std::vector<SavedInfo> CustomNode::saved_tensors() const {
  std::vector<SavedInfo> out;
  for (size_t i = 0; i < context.saved_.size(); ++i)
    if (context.saved_[i].defined())
      out.push_back({fmt::format("saved[{}]", i), context.saved_[i].peek()});
  return out;
}

}  // namespace detail_fn
}  // namespace pellucid::autograd
