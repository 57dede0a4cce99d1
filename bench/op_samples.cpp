// Every op's large float32 sample, called by name: forward, and backward alone.
#include "cases.h"

namespace pellucid::bench {
namespace {

/// The tensors of results or arguments, lists opened.
void collect(const Value& v, std::vector<Tensor>& out) {
  if (const Tensor* t = v.as<Tensor>())
    out.push_back(*t);
  else if (const Values* list = v.as<Values>())
    for (const Value& e : *list) collect(e, out);
}

/// The argument with every floating tensor as a leaf of its own, which `leaves` gets too.
Value with_leaves(const Value& v, std::vector<Tensor>& leaves) {
  if (const Values* list = v.as<Values>()) {
    Values out;
    for (const Value& e : *list) out.push_back(with_leaves(e, leaves));
    return out;
  }
  const Tensor* t = v.as<Tensor>();
  if (!t || !t->defined() || !is_floating(t->dtype()) || t->impl().wrapped_number) return v;
  leaves.push_back(t->detach().requires_grad_());
  return leaves.back();
}

/// Backward of the sample, again and again over one recorded forward pass.
Work backward_work(const std::function<Sample()>& make_large) {
  auto sample = std::make_shared<Sample>(make_large());
  std::vector<Tensor> leaves, all, outputs, gradients;
  for (Value& v : sample->args) v = with_leaves(v, leaves);
  for (NamedValue& v : sample->kwargs) v.value = with_leaves(v.value, leaves);
  for (const Value& v : invoke(*sample->op, sample->args, sample->kwargs)) collect(v, all);
  for (const Tensor& t : all)
    if (t.defined() && t.requires_grad()) outputs.push_back(t);
  PELLUCID_CHECK(!outputs.empty(), ValueError, "no result has a gradient.");
  for (const Tensor& t : outputs) gradients.push_back(randn(t.sizes()));
  auto kept = std::make_shared<std::vector<Tensor>>();
  return {.once =
              [=] {
                kept->clear();
                *kept = autograd::grad(outputs, leaves, gradients, true, false, true);
              },
          .inputs = gradients,
          .results = [kept] { return *kept; },
          .sample = sample};
}

}  // namespace

void add_op_sample_cases(Cases& cases) {
  for (const OpDef* op : all_ops()) {
    const auto make_large = samples_of(*op).make_large;
    if (!make_large) continue;
    const std::string name =
        op->info->name + (op->info->overload.empty() ? "" : "." + op->info->overload);
    cases.push_back({"record/" + name, [make_large] {
                       auto sample = std::make_shared<Sample>(make_large());
                       auto kept = std::make_shared<std::vector<Value>>();
                       return Work{.once =
                                       [=] {
                                         const NoGradGuard guard;
                                         kept->clear();
                                         *kept = invoke(*sample->op, sample->args, sample->kwargs);
                                       },
                                   .results =
                                       [kept] {
                                         std::vector<Tensor> out;
                                         for (const Value& v : *kept) collect(v, out);
                                         return out;
                                       },
                                   .sample = sample};
                     }});
    if (op->compose || (op->vjp && op->vjp != no_gradient))
      cases.push_back(
          {"record_backward/" + name, [make_large] { return backward_work(make_large); }});
  }
}

}  // namespace pellucid::bench
