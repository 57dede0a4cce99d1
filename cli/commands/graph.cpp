// pellucid graph: every intermediate value of an expression, every gradient, and the picture.
#include "pellucid/graph.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/evaluation.h"
#include "cli/expr/compile.h"
#include "cli/machine/machine.h"
#include "cli/step_rows.h"
#include "cli/text.h"
#include "cli/values.h"
#include "cli/view/serve.h"
#include "pictures/references.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GraphFlags {
  std::string expression, file, rankdir = "TB";
  std::vector<std::string> bindings;
  bool saved = false, json = false, passes = false, view = false;
  view::ServeFlags serve;
};

// ---- the picture

// The value where it is short, else the range of its elements.
std::string picture_value(const Tensor& t) {
  constexpr int64_t kShown = 3;
  if (t.numel() <= kShown) return brief(t);
  const NoGradGuard off;
  const Tensor values = t.detach().to(kFloat64);
  return fmt::format("{} … {}", brief(values.min()), brief(values.max()));
}

// At each node the value it computed, at each leaf its value and its gradient.
DotOptions dot_options(const Evaluation& evaluation, const std::vector<GraphNode>& nodes,
                       const std::vector<NamedGradient>& gradients, const GraphFlags& options) {
  std::map<std::string, std::string> texts;  // by name; a later step of a name replaces an earlier
  DotOptions dot;
  dot.rankdir = options.rankdir;
  dot.show_saved = options.saved;
  dot.show_shapes = false;
  for (const auto* list : {&evaluation.leaves(), &evaluation.steps()})
    for (const NamedStep& s : *list)
      if (const Tensor* t = s.shown.tensor()) {
        texts[s.name] = (s.formula.empty() ? "" : s.name + " = ") + picture_value(*t);
        dot.show_shapes = dot.show_shapes || t->dim() > 0;
      }
  for (const NamedGradient& g : gradients)
    if (g.leaf && g.value.defined()) texts[g.name] += "\ngradient " + picture_value(g.value);
  for (const GraphNode& n : nodes)
    if (const auto text = texts.find(evaluation.name_of(*n.node)); text != texts.end())
      dot.values.emplace_back(n.node.get(), text->second);
  return dot;
}

// Draws the picture; returns what to say about it.
std::string draw(const Evaluation& evaluation, const std::vector<NamedGradient>& gradients,
                 const GraphFlags& options) {
  for (const Tensor& root : evaluation.roots())
    if (root.name().empty()) root.set_name(evaluation.result_name());
  const Tensors roots = evaluation.roots().empty() ? Tensors{Tensor()} : evaluation.roots();
  const auto leaves = named_leaves(evaluation);
  const std::vector<GraphNode> nodes = graph_nodes(roots, leaves);
  const Dot dot = make_dot(roots, leaves, dot_options(evaluation, nodes, gradients, options));
  dot.save(options.file);
  const bool drawn = !options.file.ends_with(".dot") && !options.file.ends_with(".gv");
  return drawn ? graph::note_of(dot.source()) : "";
}

// ---- text and JSON

std::string as_text(const Evaluation& evaluation, const std::vector<NamedGradient>& gradients) {
  std::string out;
  for (const NamedStep& s : evaluation.leaves()) out += with_value(s.name + " = ", s.shown) + "\n";
  for (const NamedStep& s : evaluation.steps())
    out += with_value(fmt::format("{} = {} = ", s.name, s.formula), s.shown) + "\n";
  if (evaluation.steps().empty() && evaluation.leaves().empty())
    out += with_value("", evaluation.result()) + "\n";
  if (gradients.empty()) return out;
  out += "\n";
  if (evaluation.objective_name() != evaluation.result_name())
    out += fmt::format("{} has more than one element; these are the gradients of its sum:\n",
                       evaluation.result_name());
  for (const NamedGradient& g : gradients) {
    const std::string name = evaluation.derivative_name(g.name);
    if (g.value.defined())
      out += with_value(name + " = ", g.value) + "\n";
    else
      out += fmt::format("{} = 0 ({} does not depend on {})\n", name, evaluation.result_name(),
                         g.name);
  }
  return out;
}

Json step_json(const NamedStep& s) {
  Json j = {{"name", s.name}};
  if (!s.formula.empty()) j["formula"] = s.formula;
  j.update(described_json(s.shown));
  return j;
}

Json node_json(const GraphNode& g, const Evaluation& evaluation) {
  Json j = {{"id", g.id}, {"name", g.name}};
  j["op"] = g.op.empty() ? Json(nullptr) : Json(g.op);
  const std::string name = g.label.empty() ? evaluation.name_of(*g.node) : g.label;
  j["variable"] = name.empty() ? Json(nullptr) : Json(name);
  j["leaf"] = g.node->is_accumulate();
  j["outputs"] = Json::array();
  for (const auto& [sizes, dtype] : g.outputs)
    j["outputs"].push_back(
        {{"shape", std::vector<int64_t>(sizes.begin(), sizes.end())}, {"dtype", name_of(dtype)}});
  j["saved"] = Json::array();
  for (const autograd::SavedInfo& s : g.saved)
    j["saved"].push_back({{"name", s.name},
                          {"bytes", s.tensor.defined() ? Json(s.tensor.nbytes()) : Json(nullptr)}});
  return j;
}

Json as_json(const Evaluation& evaluation, const std::vector<NamedGradient>& gradients,
             const GraphFlags& options) {
  Json j = {{"expression", options.expression}, {"result", evaluation.result_name()}};
  j["leaves"] = j["values"] = j["gradients"] = j["nodes"] = j["edges"] = Json::array();
  for (const NamedStep& s : evaluation.leaves()) j["leaves"].push_back(step_json(s));
  for (const NamedStep& s : evaluation.steps()) j["values"].push_back(step_json(s));
  for (const NamedGradient& g : gradients)
    j["gradients"].push_back({{"of", evaluation.objective_name()},
                              {"by", g.name},
                              {"leaf", g.leaf},
                              {"value", g.value.defined() ? value_json(g.value) : Json(0)}});
  if (!evaluation.roots().empty()) {
    const std::vector<GraphNode> nodes = graph_nodes(evaluation.roots(), named_leaves(evaluation));
    for (const GraphNode& n : nodes) {
      j["nodes"].push_back(node_json(n, evaluation));
      for (const size_t next : n.next)  // data flows from a node to the one that uses its result
        j["edges"].push_back({{"from", nodes[next].id}, {"to", n.id}});
    }
  }
  if (!options.file.empty()) j["picture"] = options.file;
  return j;
}

// ---- the captured program

int run_passes(const Args& args, const GraphFlags& options) {
  const NoGradGuard off;
  Machine machine;
  NamedTensors inputs;
  for (const std::string& binding : options.bindings) {
    const size_t equals = binding.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("'{}' is no NAME=VALUE", binding));
    machine.run(expr::compile(binding));
    const std::string name = binding.substr(0, equals);
    if (const Tensor* t = machine.find(name)->tensor()) inputs.emplace_back(name, *t);
  }
  const expr::Code code = expr::compile(options.expression);
  const Program program = trace(
      [&](const Tensors& in) {
        for (size_t i = 0; i < in.size(); ++i) machine.set(inputs[i].first, in[i]);
        const Object result = machine.run(code);
        const Tensor* const t = result.tensor();
        PELLUCID_CHECK(t, TypeError, "graph --passes: the expression must give a tensor.");
        return Tensors{*t};
      },
      inputs);
  const std::vector<ProgramStage> stages = program.stages();
  if (options.json) {
    Json j = {{"expression", options.expression}, {"stages", Json::array()}};
    for (const ProgramStage& s : stages) {
      Json nodes = Json::array();
      for (const ProgramNode& n : s.nodes)
        nodes.push_back({{"op", n.op},
                         {"inputs", n.inputs},
                         {"outputs", n.outputs},
                         {"forms", n.forms},
                         {"group", n.group}});
      j["stages"].push_back({{"name", s.name}, {"nodes", nodes}});
    }
    fmt::print(args.out, "{}", json_text(j));
  } else {
    std::string before;
    for (const ProgramStage& s : stages) {
      const std::string now = s.text();
      fmt::print(args.out, "{}:{}\n{}", s.name, now == before ? " no change" : "",
                 now == before ? "" : now);
      before = now;
    }
    fmt::print(args.out, "\n{}", program.explain().text());
  }
  if (!options.file.empty()) {
    DotOptions dot;
    dot.rankdir = options.rankdir;
    make_dot(program, dot).save(options.file);
    fmt::print(args.err, "wrote {}\n", options.file);
  }
  return 0;
}

int run_graph(const Args& args) {
  GraphFlags options;
  CommandLine line(args);
  line.add_option("EXPR", options.expression, "What to compute; statements are separated by ';'")
      ->required();
  line.add_option("NAME=VALUE", options.bindings,
                  "Variables to differentiate by: numbers, lists or expressions");
  line.add_option("-o,--output", options.file, "Draw the graph: .svg, .png, .pdf or .dot")
      ->type_name("FILE");
  line.add_option("--rankdir", options.rankdir, "LR: left to right, TB: top to bottom")
      ->type_name("DIR")
      ->check(one_of({"LR", "TB"}))
      ->capture_default_str();
  line.add_flag("--saved", options.saved, "Draw what each node keeps for backward, with its bytes");
  line.add_flag("--passes", options.passes,
                "Show the captured program before and after each pass, and what runs as one");
  line.add_flag("--view", options.view, "Open the viewer's playground: values, gradients, steps");
  options.serve.add_to(line);
  line.add_json(options.json);
  line.read();
  if (options.view)
    return serve_until_signal(args, options.serve,
                              view::open_expression(options.expression, options.bindings));
  if (options.passes) return run_passes(args, options);

  Evaluation evaluation(options.expression, options.bindings);
  for (const std::string& name : evaluation.unused())
    fmt::print(args.err, "pellucid graph: the expression does not use '{}'\n", name);
  evaluation.run();
  const std::vector<NamedGradient> gradients = evaluation.gradients();
  const std::string out = options.json ? json_text(as_json(evaluation, gradients, options))
                                       : as_text(evaluation, gradients);
  fmt::print(args.out, "{}", out);
  if (!evaluation.objective().defined() && evaluation.has_variables())
    fmt::print(
        args.err,
        "pellucid graph: {} has no gradient: it is not a differentiable function of any variable\n",
        evaluation.result_name());
  if (!options.file.empty()) {
    const std::string note = draw(evaluation, gradients, options);
    fmt::print(args.err, "wrote {}\n", options.file);
    if (!note.empty()) fmt::print(args.err, "note: {}\n", note);
  }
  return 0;
}

}  // namespace

const Command kGraph{
    .name = "graph",
    .summary = "Show the values, the gradients and the picture of an expression",
    .description =
        "Evaluates the expression and prints every intermediate value by its name, then the "
        "gradient of the result by every variable. Intermediates without a name get the letters "
        "a, b, c… and the result y. With -o the computation graph is drawn with names and "
        "values at its nodes.\n\n"
        "Expressions are Python's: names, numbers, lists, calls with keywords, + - * / // % ** @, "
        "comparisons, indexing and slices; every op by name (see pellucid ops), as a function or a "
        "method.",
    .examples =
        "pellucid graph 'exp(sin(x**2))*x' x=2\n"
        "pellucid graph 'a = x**2; b = sin(a); c = exp(b); y = c*x' x=2 -o g.svg\n"
        "pellucid graph 'relu(x @ w).sum()' 'x=rand(2, 3)' 'w=randn(3, 4)' --rankdir LR -o "
        "g.png\n"
        "pellucid graph --passes 'relu(x @ w) * exp(x @ w)' 'x=rand(64, 64)' 'w=rand(64, 64)' -o "
        "passes.svg\n"
        "pellucid graph 'softmax(x, dim=0)' 'x=[1, 2, 3]' --json\n"
        "pellucid graph --view 'a = x**2; b = sin(a); c = exp(b); y = c*x' x=2",
    .run = run_graph};

}  // namespace pellucid::cli
