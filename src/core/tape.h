// The tape: the node that an op call leaves behind, and how histories of views and in-place changes
// are kept.
#pragma once

#include <memory>

#include "pellucid/autograd.h"
#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"

namespace pellucid {

/// A copy of a call's attributes that outlives the call.
class OwnedAttrs {
 public:
  void assign(Attrs attrs);
  Attrs view() const { return {attrs_.begin(), attrs_.size()}; }
  /// Sets a number among them.
  void set(size_t i, int64_t value) { attrs_[i] = Attr(value); }

 private:
  detail::InlineVec<Attr, 2> attrs_;
  std::unique_ptr<char[]> lists_;
};

namespace tape {

class LastUse;

/// Whether a gradient may be asked of `t`.
bool requires_grad(const Tensor& t);
/// Whether it is a view whose history is made from that of its base, which has one. Its own may be
/// changing on another thread then: ask gradient_edge for it.
bool follows_base(const detail::TensorImpl& t);
/// The tensor, or an alias of it where another thread may make its layout visible at any time.
Tensor settled(const Tensor& t);

/// The node of one op call.
struct OpNode final : autograd::Node {
  explicit OpNode(const OpDef& op) : op_(op) {}
  std::string name() const override;
  autograd::variable_list apply(autograd::variable_list&& grads) override;
  void release_variables() override;
  std::vector<autograd::SavedInfo> saved_tensors() const override;
  const OpDef* op() const override { return &op_; }

  const OpDef& op_;
  OwnedAttrs attrs_;
  detail::InlineVec<autograd::TensorFacts, 2> inputs_;
  detail::InlineVec<autograd::SavedVariable, 2> saved_inputs_;   // one per input, or none
  detail::InlineVec<autograd::SavedVariable, 1> saved_outputs_;  // one per output, or none
  uint64_t seed_ = 0, random_offset_ = 0;
  bool freed_ = false;
};

/// Whether nobody but the holder of this handle can see the tensor's memory.
bool exclusively_owned(const Tensor& t);
/// The number of owners of a counted object; what those that let go did with it is visible.
uint32_t owners(const detail::RefCounted& counted);
/// The innermost argument that is marked as used for the last time (core/vjp_tools.h).
extern constinit thread_local LastUse* last_uses;
/// The mark on one of a call's arguments, if this is the first call that gets it; null if none has
/// one. Calls inside of this one find it spent.
const LastUse* claim_last_use(Inputs inputs);
/// The node whose vjp runs on this thread, or null.
extern constinit thread_local const OpNode* applying;

/// Makes the node of a call: edges and saved inputs. In place, input 0 is cloned first if it is
/// saved.
detail::Ref<OpNode> prepare(const Call& c, bool in_place);
/// Gives the results their history, after the kernel ran.
void set_history(const Tensor& result, const autograd::NodeRef& node, uint32_t output_nr);
/// A tensor that retains its gradient leaves its history.
void drop_keeper(detail::AutogradMeta& meta);
/// The same for a tensor changed in place: its base's history is rebased if it is a view.
/// `self_input`: which input of the node it was.
void rebase_history(const Tensor& self, const autograd::NodeRef& node, size_t self_input = 0);
/// Whether it is a leaf that wants a gradient.
bool is_grad_leaf(const detail::TensorImpl& t);
/// Throws if `self` is a leaf that wants a gradient, or a view of one, and gradients are tracked.
void check_leaf(const Tensor& self, std::string_view op_name);
/// Throws if `self` may not be changed in place now. `one_value`: all elements get the same, so
/// some of them may share a location.
void check_in_place(const Tensor& self, std::string_view op_name, bool tracked,
                    bool one_value = false);

}  // namespace tape
}  // namespace pellucid
