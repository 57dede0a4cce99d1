// The graph of an expression for the viewer; see step_rows.h.
#include "serve/graph_view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/step_rows.h"
#include "cli/values.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

// Up to this many elements a value is given in full, above it as its range and a picture.
constexpr int64_t kFull = 64;
constexpr int64_t kPicture = 32;  // rows and columns at most

// Elements in rows and columns, the last dimension across; of a large tensor every n-th.
Json picture_of(const Tensor& t) {
  const int64_t columns = t.dim() == 0 ? 1 : std::max<int64_t>(1, t.size(-1));
  const Tensor rows = t.reshape({-1, columns});
  const auto stride = [](int64_t n) { return (n + kPicture - 1) / kPicture; };
  return value_json(
      rows.slice(0, 0, rows.size(0), stride(rows.size(0))).slice(1, 0, columns, stride(columns)));
}

Json shown_json(const Tensor& value) {
  const NoGradGuard off;
  const Tensor t = value.detach();
  Json j = {{"shape", std::vector<int64_t>(t.sizes().begin(), t.sizes().end())},
            {"dtype", name_of(t.dtype())},
            {"text", brief(t)}};
  if (t.numel() <= kFull) {
    j["value"] = value_json(t);
    return j;
  }
  const Tensor wide = t.to(kFloat64);
  j["min"] = value_json(wide.min());
  j["max"] = value_json(wide.max());
  j["picture"] = picture_of(wide);
  return j;
}

std::string shape_text(const GraphNode& node) {
  if (node.outputs.empty()) return "";
  const auto& [sizes, dtype] = node.outputs[0];
  return sizes.empty() ? "" : fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string_view family_of(const GraphNode& node) {
  const OpDef* op = node.node->op();
  if (op == nullptr) return "other";
  switch (op->kind) {
    case OpKind::Contraction:
      return "contraction";
    case OpKind::Pointwise:
      return "pointwise";
    case OpKind::Reduction:
      return "reduction";
    case OpKind::View:
    case OpKind::Index:
    case OpKind::Creation:
      return "movement";
    default:
      return "other";
  }
}

}  // namespace

Json graph_view_json(const Evaluation& evaluation, const StepRows& rows) {
  std::map<std::string, const NamedStep*> steps;  // a later step of a name replaces an earlier one
  for (const auto* list : {&evaluation.leaves(), &evaluation.steps()})
    for (const NamedStep& s : *list) steps[s.name] = &s;
  std::map<const autograd::Node*, const BackwardRow*> backward;
  for (const BackwardRow& row : rows.backward) backward[row.tape_node] = &row;
  serve::GraphView g{.title = evaluation.result_name(), .kind = "autograd"};
  for (const GraphNode& n : rows.nodes) {
    const std::string name = n.label.empty() ? evaluation.name_of(*n.node) : n.label;
    const auto step = steps.find(name);
    const bool known = step != steps.end();
    std::string label = name.empty() ? n.op : name;
    if (known && !step->second->formula.empty()) label += " = " + step->second->formula;
    Json more = {{"name", n.name},
                 {"op", n.op},
                 {"family", family_of(n)},
                 {"variable", name},
                 {"leaf", n.node->is_accumulate()}};
    if (known)
      if (const Tensor* t = step->second->shown.tensor(); t != nullptr && t->defined())
        more["value"] = shown_json(*t);
    if (const auto row = backward.find(n.node.get()); row != backward.end())
      more["gradient"] = {{"text", row->second->gradient.text},
                          {"value", row->second->gradient.value}};
    g.nodes.push_back({n.id, -1, std::move(label), std::move(more)});
  }
  for (size_t to = 0; to < rows.nodes.size(); ++to) {
    const GraphNode& n = rows.nodes[to];
    const auto row = backward.find(n.node.get());
    size_t input = 0;
    for (const autograd::Edge& e : n.node->next_edges()) {
      const size_t place = input++;
      const auto from = std::find_if(rows.nodes.begin(), rows.nodes.end(),
                                     [&](const auto& other) { return other.node == e.function; });
      if (!e.is_valid() || from == rows.nodes.end()) continue;
      Json more = {{"label", shape_text(*from)}};
      if (row != backward.end() && place < row->second->inputs.size()) {
        const InputRow& in = row->second->inputs[place];
        more["local"] = in.local;
        if (in.gradient)
          more["gradient"] = {{"text", in.gradient->text}, {"value", in.gradient->value}};
      }
      g.edges.push_back({static_cast<int32_t>(from - rows.nodes.begin()), static_cast<int32_t>(to),
                         "data", std::move(more)});
    }
  }
  return g.laid_out();
}

}  // namespace pellucid::cli
