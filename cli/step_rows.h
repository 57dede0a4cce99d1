// An expression evaluated step by step and differentiated node by node, as data: what `pellucid
// step` prints and what the viewer's playground shows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/evaluation.h"
#include "pellucid/graph.h"

namespace pellucid::cli {

/// One instruction after it has run.
struct ForwardRow {
  expr::ListingRow listing;
  std::vector<std::string> stack;  ///< values, the last on top
  int64_t bytes = 0;               ///< of tensors alive
  std::string note;                ///< "e = b * c" where something was computed
};

/// A gradient as text and data: keeping the tensor would change the bytes alive.
struct Shown {
  std::string text;
  nlohmann::ordered_json value;
  Shown() = default;
  explicit Shown(const Tensor& t);
};

/// What one node does to one of its inputs.
struct InputRow {
  std::string name;               ///< of the input
  std::string local;              ///< the local derivative, or how large it would be
  std::optional<Shown> gradient;  ///< what flows on
};

struct BackwardRow {
  std::string node, output;                   ///< "MulBackward0", "e"
  const autograd::Node* tape_node = nullptr;  ///< tells it from others; not to be followed
  Shown gradient;                             ///< what arrives
  std::vector<InputRow> inputs;
  bool accumulates = false;  ///< into the leaf `output`
  int64_t bytes = 0;
};

struct StepRows {
  std::vector<ForwardRow> forward;
  std::vector<BackwardRow> backward;
  std::vector<GraphNode> nodes;  ///< of the tape, as it was before backward
};

/// Runs the evaluation, then backward from its objective where it has one. `before` are the bytes
/// that were alive before the evaluation was made.
StepRows run_in_steps(Evaluation& evaluation, int64_t before);

/// What `pellucid step --json` prints.
nlohmann::ordered_json steps_json(const Evaluation& evaluation, const StepRows& rows,
                                  const std::string& expression);

/// The graph of the evaluation for the viewer, laid out (docs/view-format.md): at each node its
/// value, the gradient that arrived there, and at each edge the local derivative and what flowed
/// back.
nlohmann::ordered_json graph_view_json(const Evaluation& evaluation, const StepRows& rows);

/// The leaves that were given names, as graph_nodes() takes them.
std::vector<std::pair<std::string, Tensor>> named_leaves(const Evaluation& evaluation);

}  // namespace pellucid::cli
