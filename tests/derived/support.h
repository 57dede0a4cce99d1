// Samples as test material: running them, replacing their tensors, comparing results.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>

#include "core/fuse.h"
#include "pellucid/autograd.h"
#include "pellucid/op.h"
#include "pellucid/ops.h"

namespace pellucid::test {

using Map = std::function<Tensor(const Tensor&)>;

inline Value map_value(const Value& v, const Map& f) {
  if (const Tensor* t = v.as<Tensor>()) return t->defined() ? Value(f(*t)) : v;
  if (const Values* list = v.as<Values>()) {
    Values out;
    for (const Value& e : *list) out.push_back(map_value(e, f));
    return out;
  }
  return v;
}

/// The sample with every tensor replaced by f(tensor).
inline Sample map_tensors(const Sample& s, const Map& f) {
  Sample out = s;
  for (Value& v : out.args) v = map_value(v, f);
  for (NamedValue& v : out.kwargs) v.value = map_value(v.value, f);
  return out;
}

/// The sample on tensors of its own: samples may look at memory of which the program has a pointer,
/// and calls that read it are not kept.
inline Sample own_memory(const Sample& s) {
  return map_tensors(
      s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.detach().clone(); });
}

/// Small tensors, and optimisers' steps with the product before them, are fused while it lives.
struct FuseAll {
  FuseAll() { detail::least_fused = 0, detail::fuse_updates = true; }
  ~FuseAll() { detail::least_fused = detail::kLeastFused, detail::fuse_updates = false; }
  FuseAll(const FuseAll&) = delete;
};

inline void collect(const Value& v, Tensors& out) {
  if (const Tensor* t = v.as<Tensor>()) {
    if (t->defined()) out.push_back(*t);
  } else if (const Values* list = v.as<Values>())
    for (const Value& e : *list) collect(e, out);
}

inline Tensors tensors_of(const Sample& s) {
  Tensors out;
  for (const Value& v : s.args) collect(v, out);
  for (const NamedValue& v : s.kwargs) collect(v.value, out);
  return out;
}

/// Runs the call; lists of results are flattened.
inline Tensors run(const Sample& s, bool in_place = false) {
  Tensors out;
  for (const Value& v : invoke(*s.op, s.args, s.kwargs, in_place)) collect(v, out);
  return out;
}

/// "add(float64[2, 3], float64[3], alpha=2)".
inline std::string text(const Sample& s) {
  std::string out =
      s.op->info->name + (s.op->info->overload.empty() ? "" : "." + s.op->info->overload) + "(";
  for (size_t i = 0; i < s.args.size(); ++i) out += (i ? ", " : "") + s.args[i].repr();
  for (const NamedValue& v : s.kwargs) out += ", " + v.name + "=" + v.value.repr();
  return out + ")";
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// Elements as doubles, in row-major order.
inline std::vector<double> values(const Tensor& t) {
  const Tensor x = t.detach().to(kFloat64).contiguous();
  const double* p = x.const_data_ptr<double>();
  return {p, p + x.numel()};
}

/// Whether |a - b| <= atol + rtol |b| everywhere; NaN equals NaN, inf equals inf.
inline bool close(const Tensor& a, const Tensor& b, double rtol, double atol) {
  if (a.sizes() != b.sizes()) return false;
  const std::vector<double> x = values(a), y = values(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!(std::fabs(x[i] - y[i]) <= atol + rtol * std::fabs(y[i]))) return false;
  }
  return true;
}

/// Whether two calls of the op with the same seed may be compared: creation of uninitialised memory
/// may not.
inline bool has_defined_values(const OpDef& op) { return !op.info->name.starts_with("empty"); }

/// The op definitions of the library: not those that other tests register, some of which are wrong.
inline std::vector<const OpDef*> library_ops() {
  std::vector<const OpDef*> ops = all_ops();
  std::erase_if(ops, [](const OpDef* op) { return op->info->name.starts_with("user_"); });
  return ops;
}

/// The sample's float64 inputs as leaves, and the call as a function of them.
struct Differentiable {
  autograd::variable_list inputs;
  std::function<autograd::variable_list(const autograd::variable_list&)> f;
};

inline Differentiable differentiable(const Sample& s) {
  Differentiable d;
  map_tensors(s, [&](const Tensor& t) {
    if (t.dtype() == kFloat64 && !t.impl().wrapped_number)
      d.inputs.push_back(t.detach().clone().requires_grad_());
    return t;
  });
  d.f = [s](const autograd::variable_list& in) {
    size_t next = 0;
    const Sample replaced = map_tensors(s, [&](const Tensor& t) {
      return t.dtype() == kFloat64 && !t.impl().wrapped_number ? in[next++] : t;
    });
    return run(replaced);
  };
  return d;
}

}  // namespace pellucid::test
