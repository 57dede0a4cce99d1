// Writes every op's sample calls, their results and gradients into files that compare.py
// replays in PyTorch. Works only when PELLUCID_PARITY_DIR names a folder (tests/parity/run sets
// it); it compares nothing itself.
//
// To each call (call_file.h) it adds
//   results | raised   the tensors, or the message
//   leaves             for each tensor of args and kwargs in order: whether it requires gradients
//   gradients          of sum(result * weights) for each leaf, null where none arrived; weights are
//   cos(1), cos(2), … in
//                      row-major order
//   changed            for each of these tensors: what it holds afterwards, null where it is
//   unchanged in_place           what self held after the in-place form, or null where it was
//   refused expected           of a failing sample: the text that the message contains
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "derived/support.h"
#include "parity/call_file.h"
#include "pellucid/creation.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

// A copy with the same strides and offset in a storage of its own, in another dtype if asked.
Tensor copy_as(const Tensor& t, DType dtype) {
  const int64_t extent = storage_extent(t);
  const NoGradGuard guard;
  const Tensor whole = t.detach().as_strided({extent}, {1}, 0).to(dtype).clone();
  return whole.as_strided(t.sizes(), t.strides(), t.storage_offset()).detach();
}

// The call on tensors of its own; float64 becomes `floats`.
Sample copied(const Sample& s, DType floats = kFloat64) {
  return map_tensors(s, [&](const Tensor& t) {
    return is_wrapped(t) ? t : copy_as(t, t.dtype() == kFloat64 ? floats : t.dtype());
  });
}

// cos(1), cos(2), … in the shape and dtype of t.
Tensor weights_like(const Tensor& t) {
  const Tensor w = empty(t.sizes(), kFloat64);
  double* p = w.data_ptr<double>();
  for (int64_t i = 0; i < w.numel(); ++i) p[i] = std::cos(static_cast<double>(i + 1));
  return w.to(t.dtype());
}

// For each tensor of the call, in order: whether running it changed the tensor. Such tensors cannot
// be leaves.
std::vector<bool> changed_tensors(const Sample& before, const Sample& after) {
  const Tensors a = tensors_of(before), b = tensors_of(after);
  std::vector<bool> out;
  for (size_t i = 0; i < a.size(); ++i)
    if (!is_wrapped(a[i])) out.push_back(!same_bits(a[i], b[i]));
  return out;
}

void add_gradients(CallWriter& w, const Sample& s, const std::vector<bool>& changed, json& call) {
  size_t next = 0;
  Tensors leaves;
  // What changes its arguments and has no gradient may refuse leaves.
  const bool without = s.op->vjp == no_gradient && s.op->info->mutates;
  call["leaves"] = json::array();
  const Sample recorded = map_tensors(s, [&](const Tensor& t) {
    if (is_wrapped(t)) return t;
    const bool leaf = !changed[next++] && t.is_floating_point() && !without;
    call["leaves"].push_back(leaf);
    const Tensor own = copy_as(t, t.dtype());
    if (leaf) leaves.push_back(own.requires_grad_());
    return own;
  });
  Tensors outputs, weights;
  for (const Tensor& t : run(recorded)) {
    if (!t.requires_grad()) continue;
    outputs.push_back(t);
    weights.push_back(weights_like(t));
  }
  Tensors found(leaves.size());
  if (!outputs.empty()) found = autograd::grad(outputs, leaves, weights, std::nullopt, false, true);
  call["gradients"] = json::array();
  for (const Tensor& g : found) call["gradients"].push_back(g.defined() ? w.contiguous(g) : json());
}

// What self holds after the in-place form; null where that form refuses the call.
json in_place_result(CallWriter& w, const Sample& s) {
  try {
    return w.contiguous(run(copied(s), true)[0]);
  } catch (const Error&) { return nullptr; }
}

// Whether another seed gives other bits: such results cannot be compared with PyTorch's.
bool is_random(const Sample& s, const Tensors& results) {
  manual_seed(2);
  const Tensors again = run(copied(s));
  for (size_t i = 0; i < results.size(); ++i)
    if (!same_bits(results[i], again[i])) return true;
  return false;
}

void dump_valid(CallWriter& w, const Sample& sample, DType floats) {
  const Sample s = copied(sample, floats);
  json call = describe_call(w, s);
  try {
    manual_seed(1);
    const Sample own = copied(s);
    const Tensors results = run(own);
    if (is_random(s, results)) return;
    call["results"] = json::array();
    for (const Tensor& t : results) call["results"].push_back(w.contiguous(t));
    const std::vector<bool> changed = changed_tensors(s, own);
    size_t next = 0;
    for (const Tensor& t : tensors_of(own))
      if (!is_wrapped(t)) call["changed"].push_back(changed[next++] ? w.contiguous(t) : json());
    manual_seed(1);
    add_gradients(w, s, changed, call);
    if (s.op->info->has_in_place) call["in_place"] = in_place_result(w, s);
  } catch (const Error& e) {
    call.erase("results");
    call["raised"] = e.what();
  }
  w.line(call);
}

}  // namespace

TEST_CASE("parity: every op's samples are written for PyTorch") {
  const char* folder = std::getenv("PELLUCID_PARITY_DIR");
  if (!folder) return;
  CallWriter w(folder);
  for (const OpDef* op : all_ops()) {
    if (op->kind == OpKind::Random || op->random_count || !has_defined_values(*op)) continue;
    const Samples samples = samples_of(*op);
    for (const Sample& s : samples.valid) {
      INFO(text(s));
      dump_valid(w, s, kFloat64);
      const Tensors tensors = tensors_of(s);
      const bool has_doubles = std::any_of(tensors.begin(), tensors.end(),
                                           [](const Tensor& t) { return t.dtype() == kFloat64; });
      if (has_doubles) dump_valid(w, s, kFloat32);
    }
    for (const Sample& s : samples.failing) {
      INFO(text(s));
      json call = describe_call(w, s);
      call["expected"] = s.error;
      w.line(call);
    }
  }
  CHECK(w.finish());
}
