// trace(), and the program that it makes as the user sees it.
#include <algorithm>
#include <unordered_set>

#include "core/traced.h"
#include "core/whole_capture.h"
#include "tensor/phantom.h"

namespace pellucid {
namespace detail {

ProgramStage stage_of(std::string_view name, const graph::Graph& g) {
  ProgramStage stage{std::string(name), {}};
  std::vector<uint32_t> version(g.storages.size(), 0);
  for (const graph::Node& n : g.nodes) {
    ProgramNode node{.op = n.op->info->name + (n.in_place ? "_" : "")};
    for (const graph::Use& u : n.inputs)
      node.inputs.push_back(u.value == graph::kNone ? "None" : name_of(g, u.value, u.version));
    for (const uint32_t s : n.writes) ++version[s];
    for (const uint32_t v : n.outputs) {
      if (v == graph::kNone) continue;
      node.outputs.push_back(name_of(g, v, version[g.values[v].storage]));
      node.forms.push_back(fmt::format("{}{}", g.values[v].dtype, g.values[v].sizes));
    }
    stage.nodes.push_back(std::move(node));
  }
  return stage;
}

namespace {

/// What a traced function still has of what its calls make, other than results and gradients.
enum class Kept { Nothing, Made, Changed };

Kept kept_of_trace(Capture& capture, const Tensors& inputs, const Tensors& results) {
  Kept kept = Kept::Nothing;
  std::unordered_set<const Storage*> known;
  for (const Tensors* tensors : {&inputs, &results})
    for (const Tensor& t : *tensors)
      if (t.defined()) known.insert(t.impl().storage.get());
  for (const auto& changed : capture.changed_gradients())
    if (const Tensor now = changed.first.grad(); now.defined())
      known.insert(now.impl().storage.get());
  for (const CapturedCall* call : capture.to_flush())
    for (const Storage* s : call->writes) {
      if (s->data || holders(*s) == 0 || known.contains(s)) continue;
      kept = std::max(kept, capture.pending_writes(*s) > 1 ? Kept::Changed : Kept::Made);
    }
  return kept;
}

}  // namespace

}  // namespace detail

std::string ProgramStage::text() const {
  std::string out;
  for (const ProgramNode& n : nodes) {
    for (size_t k = 0; k < n.outputs.size(); ++k)
      out += fmt::format("{}{} {}", k ? ", " : "", n.outputs[k], n.forms[k]);
    out +=
        fmt::format("{}{}({})\n", n.outputs.empty() ? "" : " = ", n.op, fmt::join(n.inputs, ", "));
  }
  return out;
}

const detail::TracedProgram& Program::traced() const {
  PELLUCID_CHECK(traced_ != nullptr, ValueError,
                 "Program: it is empty; make one with trace(f, inputs).");
  return *traced_;
}

Tensors Program::run(TensorList inputs) const {
  PELLUCID_CHECK(
      traced().fits(inputs), ValueError,
      "Program: a parameter that it uses got other memory, requires a gradient or not "
      "otherwise than when it was traced, has a gradient where there was none, or an "
      "option of its optimiser or a hook changed. Trace the function again, or drop gradients "
      "with zero_grad().");
  return traced().run(inputs);
}

Tensors Program::run(const NamedTensors& inputs) const {
  const std::vector<std::string>& names = traced().names;
  Tensors ordered(names.size());
  std::vector<bool> given(names.size(), false);
  for (const auto& [name, tensor] : inputs) {
    const auto at = std::find(names.begin(), names.end(), name);
    PELLUCID_CHECK(at != names.end(), ValueError, "Program: there is no input '{}'; it has: {}.",
                   name, fmt::join(names, ", "));
    const auto i = static_cast<size_t>(at - names.begin());
    PELLUCID_CHECK(!given[i], ValueError, "Program: the input '{}' was given twice.", name);
    given[i] = true;
    ordered[i] = tensor;
  }
  for (size_t i = 0; i < names.size(); ++i)
    PELLUCID_CHECK(given[i], ValueError, "Program: the input '{}' is missing.", names[i]);
  return run(TensorList(ordered));
}

const std::vector<std::string>& Program::inputs() const { return traced().names; }
int64_t Program::calls() const {
  return static_cast<int64_t>(traced().program()->graph().nodes.size());
}
std::string Program::text() const {
  return detail::stage_of("", traced().program()->graph()).text();
}
std::vector<ProgramStage> Program::stages() const {
  std::vector<ProgramStage> out;
  for (const auto& [name, stage] : traced().stages()) out.push_back({name, stage->nodes});
  ProgramStage last = out.back();
  last.name = "fuse";
  size_t next = 0;
  int groups = 0;
  for (const Explanation::Part& p : explain().parts) {
    const int group = p.ops.size() > 1 ? groups++ : -1;
    for (size_t i = 0; i < p.ops.size(); ++i) last.nodes[next++].group = group;
  }
  out.push_back(std::move(last));
  return out;
}
int64_t Program::peak_bytes() const { return explain().peak_bytes; }
Explanation Program::explain() const {
  Explanation e;
  traced().program()->explain(e);
  return e;
}

Program trace(const std::function<Tensors(const Tensors&)>& f, const NamedTensors& inputs) {
  PELLUCID_CHECK(static_cast<bool>(f), ValueError, "trace: the function is empty.");
  PELLUCID_CHECK(!detail::estimating(), NotImplementedError,
                 "trace: calls are only counted here; trace the function outside of the estimate.");
  detail::WholeCapture capture("trace");
  Tensors stand_ins;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs) {
    PELLUCID_CHECK(tensor.defined(), ValueError, "trace: the input '{}' is undefined.", name);
    PELLUCID_CHECK(std::find(names.begin(), names.end(), name) == names.end(), ValueError,
                   "trace: two inputs are called '{}'.", name);
    names.push_back(name);
    detail::Ref<detail::TensorImpl> impl = detail::new_impl(tensor.dtype(), tensor.sizes());
    const int64_t bytes = std::max<int64_t>(tensor.nbytes(), 1);
    impl->storage = capture.capture().stand_in(static_cast<size_t>(bytes));
    Tensor stand_in(std::move(impl));
    if (tensor.requires_grad()) stand_in.requires_grad_();
    stand_ins.push_back(std::move(stand_in));
  }
  // The calls run, with the examples as inputs, where the function keeps what they make.
  const auto run_if_kept = [&](const Tensors& results) {
    const detail::Kept kept = detail::kept_of_trace(capture.capture(), stand_ins, results);
    if (kept == detail::Kept::Nothing) return kept;
    for (size_t i = 0; i < stand_ins.size(); ++i)
      detail::WholeCapture::give(stand_ins[i], inputs[i].second);
    capture.run();
    return kept;
  };
  Tensors results;
  try {
    results = f(stand_ins);
    for (Tensor& t : results)
      if (t.defined() && t.requires_grad()) t = t.detach();
  } catch (...) {
    run_if_kept({});
    throw;
  }
  auto traced = std::make_shared<detail::TracedProgram>("trace", false, capture.capture(),
                                                        stand_ins, results, capture.random());
  const detail::Kept kept = run_if_kept(results);
  PELLUCID_CHECK(kept != detail::Kept::Changed, ValueError,
                 "trace: the function keeps a tensor that it makes and changes, as the state of an "
                 "optimiser, so each run of the program would begin with a new one. It ran once "
                 "with the examples, and has its state now: trace it again.");
  if (kept == detail::Kept::Nothing) capture.capture().restore();
  PELLUCID_CHECK(!traced->changes_constants(), ValueError,
                 "trace: the function changes in place a tensor that it makes from values, as "
                 "tensor(0); a second run would go on from the first. Use zeros or full.");
  traced->names = std::move(names);
  return Program(std::move(traced));
}

}  // namespace pellucid
