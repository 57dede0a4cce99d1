// pellucid step: what the stack machine does, instruction by instruction, and what backward does,
// node by node.
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/step_rows.h"
#include "cli/text.h"
#include "cli/values.h"
#include "cli/view/serve.h"
#include "pellucid/memory.h"

namespace pellucid::cli {
namespace {

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

int run_step(const Args& args) {
  std::string expression;
  std::vector<std::string> bindings;
  bool json = false, layout = false, in_viewer = false;
  view::ServeFlags serve;
  CommandLine line(args);
  line.add_option("EXPR", expression, "What to compute; statements are separated by ';'")
      ->required();
  line.add_option("NAME=VALUE", bindings,
                  "Variables to differentiate by: numbers, lists or expressions");
  line.add_flag("--layout", layout, "With --json: add the graph, with a place for each node");
  line.add_flag("--view", in_viewer, "Open the viewer's playground: values, gradients, steps");
  serve.add_to(line);
  line.add_json(json);
  line.read();
  if (in_viewer)
    return serve_until_signal(args, serve, view::open_expression(expression, bindings));
  if (layout && !json) throw UsageError("--layout: adds to what --json writes; give --json too");

  const int64_t before = memory_stats().allocated;
  Evaluation evaluation(expression, bindings);
  // The graph shows values; without it the bytes alive are those of an ordinary run.
  evaluation.keep_values = layout;
  for (const std::string& name : evaluation.unused())
    fmt::print(args.err, "pellucid step: the expression does not use '{}'\n", name);
  const StepRows rows = run_in_steps(evaluation, before);
  if (json) {
    nlohmann::ordered_json out = steps_json(evaluation, rows, expression);
    if (layout) out["graph"] = graph_view_json(evaluation, rows);
    fmt::print(args.out, "{}", json_text(out));
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
