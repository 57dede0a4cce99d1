// pellucid step: what the stack machine does, instruction by instruction, and what backward does,
// node by node.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/commands/commands.h"
#include "cli/evaluation.h"
#include "cli/text.h"
#include "cli/values.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

// One instruction after it has run.
struct ForwardRow {
  expr::ListingRow listing;
  std::vector<std::string> stack;  // values, the last on top
  int64_t bytes = 0;               // of tensors alive
  std::string note;                // "e = b * c" where something was computed
};

// A gradient as text and data: keeping the tensor would change the bytes alive.
struct Shown {
  std::string text;
  Json value;
  Shown() = default;
  explicit Shown(const Tensor& t) : text(brief(t)), value(value_json(t)) {}
};

// What one node does to one of its inputs.
struct InputRow {
  std::string name;               // of the input
  std::string local;              // the local derivative, or how large it would be
  std::optional<Shown> gradient;  // what flows on
};

struct BackwardRow {
  std::string node, output;  // "MulBackward0", "e"
  Shown gradient;            // what arrives
  std::vector<InputRow> inputs;
  bool accumulates = false;  // into the leaf `output`
  int64_t bytes = 0;
};

struct Rows {
  std::vector<ForwardRow> forward;
  std::vector<BackwardRow> backward;
};

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
  const std::string name = evaluation.name_of(*node);
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

// ---- text

std::string forward_text(const Evaluation& evaluation, const std::vector<ForwardRow>& rows) {
  std::vector<std::string> left, stacks;
  int left_width = 0, stack_width = display_width("stack");
  for (const ForwardRow& row : rows) {
    left.push_back(print_row(row.listing));
    std::string stack;
    for (const std::string& value : row.stack) stack += (stack.empty() ? "" : "  ") + value;
    stacks.push_back(stack);
    left_width = std::max(left_width, display_width(left.back()));
    stack_width = std::max(stack_width, display_width(stack));
  }
  const auto padded = [](std::string text, int width) {
    text.append(static_cast<size_t>(width - display_width(text)), ' ');
    return text;
  };
  std::string out = padded("line  offset instruction          argument", left_width) + "   " +
                    padded("stack", stack_width) + "   " + fmt::format("{:>10}\n", "alive");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string line =
        padded(left[i], left_width) + "   " + padded(stacks[i], stack_width) + "   " +
        fmt::format("{:>10}", format_bytes_binary(static_cast<double>(rows[i].bytes)));
    if (!rows[i].note.empty()) line += "   " + rows[i].note;
    out += line + "\n";
  }
  return out + with_value(fmt::format("\n{} = ", evaluation.result_name()), evaluation.result()) +
         "\n";
}

std::string backward_text(const Evaluation& evaluation, const std::vector<BackwardRow>& rows) {
  Table table(
      {{"node"}, {"receives"}, {"local derivative"}, {"passes on"}, {"alive", Align::Right}});
  for (const BackwardRow& row : rows) {
    const std::string bytes = format_bytes_binary(static_cast<double>(row.bytes));
    const std::string receives =
        fmt::format("{} = {}", evaluation.derivative_name(row.output), row.gradient.text);
    if (row.accumulates) {
      table.add({row.node, receives, "", fmt::format("{}.grad", row.output), bytes});
      continue;
    }
    bool first = true;
    for (const InputRow& input : row.inputs) {
      if (!input.gradient) continue;
      const std::string local =
          input.local.empty() ? ""
                              : fmt::format("∂{}/∂{} = {}", row.output, input.name, input.local);
      table.add({first ? row.node : "", first ? receives : "", local,
                 fmt::format("{} to {}", input.gradient->text, input.name), first ? bytes : ""});
      first = false;
    }
    if (first) table.add({row.node, receives, "", "", bytes});
  }
  return "\n" + table.print();
}

std::string gradients_text(const Evaluation& evaluation) {
  std::string out = "\n";
  for (const NamedStep& leaf : evaluation.leaves()) {
    const Tensor* t = leaf.value.tensor();
    if (t == nullptr || !t->requires_grad()) continue;
    const std::string name = evaluation.derivative_name(leaf.name) + " = ";
    out += t->grad().defined() ? with_value(name, t->grad()) + "\n"
                               : fmt::format("{}0 (not used)\n", name);
  }
  return out;
}

// ---- JSON

Json as_json(const Evaluation& evaluation, const Rows& rows, const std::string& expression) {
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

int run_step(const Args& args) {
  std::string expression;
  std::vector<std::string> bindings;
  bool json = false;
  CommandLine line(args);
  line.add_option("EXPR", expression, "What to compute; statements are separated by ';'")
      ->required();
  line.add_option("NAME=VALUE", bindings,
                  "Variables to differentiate by: numbers, lists or expressions");
  line.add_json(json);
  line.read();

  const int64_t before = memory_stats().allocated;
  Evaluation evaluation(expression, bindings);
  evaluation.keep_values = false;  // or the bytes alive would not be those of an ordinary run
  for (const std::string& name : evaluation.unused())
    fmt::print(args.err, "pellucid step: the expression does not use '{}'\n", name);
  Rows rows;
  evaluation.run([&](size_t i) { rows.forward.push_back(forward_row(evaluation, i, before)); });
  if (evaluation.objective().defined()) run_backward(evaluation, before, rows.backward);
  if (json) {
    fmt::print(args.out, "{}", json_text(as_json(evaluation, rows, expression)));
    return 0;
  }
  std::string out = forward_text(evaluation, rows.forward);
  if (evaluation.objective().defined())
    out += backward_text(evaluation, rows.backward) + gradients_text(evaluation);
  fmt::print(args.out, "{}", out);
  return 0;
}

}  // namespace

const Command kStep{.name = "step",
                    .summary = "Watch the stack machine evaluate an expression, then backward",
                    .description =
                        "Shows the instructions of the expression in the columns of Python's dis, "
                        "with the value stack and the bytes of live tensors after each one. Then "
                        "shows backward, node by node: the gradient that arrives, the local "
                        "derivative by each input, and the gradient that is passed on.",
                    .examples =
                        "pellucid step 'd = a + b*c' a=2 b=3 c=4\n"
                        "pellucid step 'sigmoid(w @ x).sum()' 'w=rand(2, 3)' 'x=[1, 2, 3]'\n"
                        "pellucid step 'x**3' x=2 --json",
                    .run = run_step};

}  // namespace pellucid::cli
