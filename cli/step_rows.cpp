// See step_rows.h.
#include "cli/step_rows.h"

#include <fmt/format.h>

#include <set>

#include "cli/values.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

int64_t bytes_alive(int64_t before) { return memory_stats().allocated - before; }

// ---- forward

ForwardRow forward_row(const Evaluation& evaluation, size_t index, int64_t before) {
  ForwardRow row{.listing = listing_row(evaluation.code(), index)};
  for (const Object& o : evaluation.machine().stack()) row.stack.push_back(brief(o));
  row.bytes = bytes_alive(before);
  if (!evaluation.steps().empty() && evaluation.steps().back().instruction == index)
    row.note =
        fmt::format("{} = {}", evaluation.steps().back().name, evaluation.steps().back().formula);
  return row;
}

// ---- backward

std::vector<autograd::NodeRef> all_nodes(const Tensor& root) {
  std::vector<autograd::NodeRef> found;
  std::set<const autograd::Node*> seen;
  const auto visit = [&](const autograd::NodeRef& n) {
    if (n && seen.insert(n.get()).second) found.push_back(n);
  };
  visit(autograd::gradient_edge(root).function);
  for (size_t i = 0; i < found.size(); ++i) {
    const autograd::NodeRef node = found[i];
    for (const autograd::Edge& e : node->next_edges()) visit(e.function);
  }
  return found;
}

// Where the Jacobian is a single row or a diagonal, the vjp of ones is that row or diagonal;
// elsewhere only its size is told.
std::vector<std::string> local_derivatives(autograd::Node& node) {
  std::vector<std::string> out(node.next_edges().size());
  const auto outputs = node.forward_outputs();
  if (node.is_accumulate() || outputs.size() != 1) return out;
  const NoGradGuard off;
  const Tensor one = ones(outputs[0].sizes, outputs[0].dtype);
  const autograd::variable_list rows = node({one});
  const bool pointwise = node.op() != nullptr && node.op()->kind == OpKind::Pointwise;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!rows[i].defined()) continue;
    const bool whole = one.numel() == 1 || (pointwise && rows[i].numel() == one.numel());
    out[i] = whole ? brief(rows[i]) : fmt::format("Jacobian {} x {}", one.numel(), rows[i].numel());
  }
  return out;
}

std::string label_of(const Evaluation& evaluation, const autograd::Node* node) {
  std::string name = evaluation.name_of(*node);
  if (!name.empty()) return name;
  if (evaluation.objective().defined() &&
      autograd::gradient_edge(evaluation.objective()).function.get() == node)
    return evaluation.objective_name();
  return node->op() != nullptr ? node->op()->info->name : node->name();
}

void run_backward(const Evaluation& evaluation, int64_t before, std::vector<BackwardRow>& rows) {
  for (const autograd::NodeRef& ref : all_nodes(evaluation.objective())) {
    autograd::Node* node = ref.get();
    BackwardRow row{.node = node->name(),
                    .output = label_of(evaluation, node),
                    .tape_node = node,
                    .gradient = {},
                    .inputs = {},
                    .accumulates = node->is_accumulate()};
    const std::vector<std::string> locals = local_derivatives(*node);
    for (size_t i = 0; i < locals.size(); ++i) {
      const autograd::Edge& edge = node->next_edge(i);
      if (edge.is_valid())
        row.inputs.push_back({label_of(evaluation, edge.function.get()), locals[i], {}});
      else
        row.inputs.emplace_back();  // a constant: nothing flows there
    }
    node->add_post_hook([row, before, &rows](const autograd::variable_list& gave,
                                             const autograd::variable_list& got) mutable {
      if (!got.empty() && got[0].defined()) row.gradient = Shown(got[0]);
      for (size_t i = 0; i < row.inputs.size() && i < gave.size(); ++i)
        if (gave[i].defined()) row.inputs[i].gradient = Shown(gave[i]);
      row.bytes = bytes_alive(before);
      rows.push_back(row);
      return gave;
    });
  }
  evaluation.objective().backward();
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> named_leaves(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const NamedStep& s : evaluation.leaves())
    if (const Tensor* t = s.value.tensor()) out.emplace_back(s.name, *t);
  return out;
}

Shown::Shown(const Tensor& t) : text(brief(t)), value(value_json(t)) {}

StepRows run_in_steps(Evaluation& evaluation, int64_t before) {
  StepRows rows;
  evaluation.run([&](size_t i) { rows.forward.push_back(forward_row(evaluation, i, before)); });
  if (!evaluation.roots().empty())
    rows.nodes = graph_nodes(evaluation.roots(), named_leaves(evaluation));
  if (evaluation.objective().defined()) run_backward(evaluation, before, rows.backward);
  return rows;
}

Json steps_json(const Evaluation& evaluation, const StepRows& rows, const std::string& expression) {
  Json j = {{"expression", expression}, {"result", evaluation.result_name()}};
  j["value"] = value_json(evaluation.result());
  j["forward"] = j["backward"] = j["gradients"] = Json::array();
  for (const ForwardRow& row : rows.forward) {
    Json r = {{"offset", row.listing.offset}, {"instruction", row.listing.name}};
    r["argument"] = row.listing.argument.empty() ? Json(nullptr) : Json(row.listing.argument);
    r["meaning"] = row.listing.meaning.empty() ? Json(nullptr) : Json(row.listing.meaning);
    r["stack"] = row.stack;
    r["bytes_alive"] = row.bytes;
    r["computed"] = row.note.empty() ? Json(nullptr) : Json(row.note);
    j["forward"].push_back(r);
  }
  for (const BackwardRow& row : rows.backward) {
    Json r = {{"node", row.node}, {"output", row.output}, {"receives", row.gradient.value}};
    r["inputs"] = Json::array();
    for (const InputRow& input : row.inputs)
      if (input.gradient)
        r["inputs"].push_back({{"name", input.name},
                               {"local_derivative", input.local},
                               {"gradient", input.gradient->value}});
    r["bytes_alive"] = row.bytes;
    j["backward"].push_back(r);
  }
  for (const NamedStep& leaf : evaluation.leaves())
    if (const Tensor* t = leaf.value.tensor(); t != nullptr && t->requires_grad())
      j["gradients"].push_back({{"of", evaluation.objective_name()},
                                {"by", leaf.name},
                                {"value", t->grad().defined() ? value_json(t->grad()) : Json(0)}});
  return j;
}

}  // namespace pellucid::cli
