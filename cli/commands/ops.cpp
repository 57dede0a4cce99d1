// pellucid ops: the catalogue of operators, all of it from the op definitions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/commands/commands.h"
#include "cli/machine/object.h"
#include "cli/text.h"
#include "cli/values.h"
#include "core/registry.h"
#include "pellucid/op.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string kind_name(OpKind kind) { return std::string(kOpKindNames[static_cast<size_t>(kind)]); }

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string gradient_text(const OpDef& op) {
  if (op.compose != nullptr) return "through the ops it is written with";
  return op.vjp != nullptr && op.vjp != no_gradient ? "yes" : "no";
}

std::string call_text(const Sample& s) {
  const OpInfo& info = *s.op->info;
  std::string out = info.name + "(";
  bool first = true;
  for (const Value& v : s.args) {
    out += (first ? "" : ", ") + v.repr();
    first = false;
  }
  for (const NamedValue& k : s.kwargs) {
    out += fmt::format("{}{}={}", first ? "" : ", ", k.name, k.value.repr());
    first = false;
  }
  return out + ")";
}

// ---- the cost of a sample: its values bound to the schema, then infer and cost, without running

struct BoundSample {
  std::deque<Tensor> tensors;
  std::deque<Dims> lists;
  std::vector<const Tensor*> inputs;
  std::vector<Attr> attrs;

  void add(Tensor t) { inputs.push_back(&tensors.emplace_back(std::move(t))); }
};

const Value& value_for(const Sample& s, size_t index, const Arg& arg) {
  if (index < s.args.size()) return s.args[index];
  for (const NamedValue& k : s.kwargs)
    if (k.name == arg.name) return k.value;
  return arg.default_value;
}

Attr attr_of(const Arg& arg, const Value& v, BoundSample& bound) {
  if (v.is_none()) return {};
  switch (arg.type) {
    case ArgType::Bool:
      return v.scalar().toBool();
    case ArgType::Int:
      return v.scalar().toLong();
    case ArgType::Float:
      return v.scalar().toDouble();
    case ArgType::Scalar:
      return v.scalar();
    case ArgType::Ints: {
      Dims& dims = bound.lists.emplace_back();
      if (const Values* list = v.as<Values>())
        for (const Value& e : *list) dims.push_back(e.scalar().toLong());
      else
        dims.resize(static_cast<size_t>(std::max(arg.fixed_length, 1)), v.scalar().toLong());
      if (arg.fixed_length > 1 && dims.size() == 1)
        dims.resize(static_cast<size_t>(arg.fixed_length), dims[0]);
      return dims.ref();
    }
    case ArgType::Text:
      return std::string_view(*v.as<std::string>());
    case ArgType::DType:
      return *v.as<DType>();
    case ArgType::Format:
      return *v.as<MemoryFormat>();
    default:
      return {};
  }
}

BoundSample bind(const Sample& s) {
  BoundSample bound;
  const std::vector<Arg>& args = s.op->info->args;
  for (size_t i = 0; i < args.size(); ++i) {
    const Value& v = value_for(s, i, args[i]);
    if (args[i].type == ArgType::Tensor)
      bound.add(v.is_none() ? Tensor() : to_tensor(v));
    else if (args[i].type == ArgType::TensorList)
      for (const Value& e : *v.as<Values>()) bound.add(e.is_none() ? Tensor() : e.tensor());
    else if (args[i].type != ArgType::Device)
      bound.attrs.push_back(attr_of(args[i], v, bound));
  }
  return bound;
}

std::optional<Cost> cost_of(const Sample& s) {
  if (s.op->cost == nullptr || s.op->infer == nullptr) return std::nullopt;
  try {
    const BoundSample bound = bind(s);
    Call call(*s.op, bound.inputs, bound.attrs);
    s.op->infer(call);
    return s.op->cost(call);
  } catch (const Error&) {
    return std::nullopt;  // a cost that needs the result's data
  }
}

// ---- one op

std::string definition_text(const OpDef& op) {
  const OpInfo& info = *op.info;
  const Samples samples = samples_of(op);
  std::string out = fmt::format("{}\n  {}\n\n", op.schema, op.doc);
  Table facts({{""}, {""}});
  facts.add(
      {"kind", kind_name(op.kind) + (info.is_view ? ", shares the storage of its input" : "")});
  if (!info.aliases.empty())
    facts.add({"also named", fmt::format("{}", fmt::join(info.aliases, ", "))});
  facts.add({"in place", info.has_in_place ? info.name + "_" : "no"});
  facts.add({"gradient", gradient_text(op)});
  if (op.compose != nullptr) {
    facts.add({"cost", "that of the ops it is written with"});
  } else if (!samples.valid.empty()) {
    if (const auto cost = cost_of(samples.valid[0]))
      facts.add({"cost", fmt::format("{} FLOPs, at least {} moved, for {}",
                                     group_digits(static_cast<int64_t>(cost->flops)),
                                     format_bytes(cost->bytes), call_text(samples.valid[0]))});
  }
  facts.add({"ONNX", op.onnx.name.empty()
                         ? "none"
                         : fmt::format("{}, since opset {}", op.onnx.name, op.onnx.since)});
  out += facts.print(2);
  constexpr size_t kShown = 8;
  if (!samples.valid.empty()) out += "\n  samples\n";
  for (size_t i = 0; i < std::min(samples.valid.size(), kShown); ++i)
    out += "    " + call_text(samples.valid[i]) + "\n";
  if (samples.valid.size() > kShown)
    out += fmt::format("    … and {} more\n", samples.valid.size() - kShown);
  if (!samples.failing.empty()) out += "\n  errors\n";
  for (const Sample& s : samples.failing)
    out += fmt::format("    {}: … {} …\n", call_text(s), s.error);
  return out;
}

Json definition_json(const OpDef& op, bool samples_too) {
  const OpInfo& info = *op.info;
  Json j = {{"name", info.name},
            {"aliases", info.aliases},
            {"overload", info.overload},
            {"kind", kind_name(op.kind)},
            {"schema", op.schema},
            {"doc", op.doc},
            {"in_place", info.has_in_place}};
  j["gradient"] = gradient_text(op) != "no";
  j["composed"] = op.compose != nullptr;
  j["view"] = info.is_view;
  if (op.onnx.name.empty())
    j["onnx"] = nullptr;
  else
    j["onnx"] = {{"name", op.onnx.name}, {"since", op.onnx.since}};
  if (!samples_too) return j;
  const Samples samples = samples_of(op);
  j["samples"] = j["errors"] = Json::array();
  for (const Sample& s : samples.valid) {
    Json sample = {{"call", call_text(s)}};
    if (const auto cost = cost_of(s)) {
      sample["flops"] = count_json(cost->flops);
      sample["bytes"] = count_json(cost->bytes);
    }
    j["samples"].push_back(sample);
  }
  for (const Sample& s : samples.failing)
    j["errors"].push_back({{"call", call_text(s)}, {"message", s.error}});
  return j;
}

int show(const Args& args, std::string name, bool json) {
  std::vector<const OpDef*> ops = find_ops(name);
  if (ops.empty() && name.ends_with('_')) {
    name.pop_back();
    ops = find_ops(name);
  }
  if (ops.empty()) {
    std::vector<std::string> names;
    for (const OpDef* op : all_ops()) {
      names.push_back(op->info->name);
      names.insert(names.end(), op->info->aliases.begin(), op->info->aliases.end());
    }
    throw ValueError(fmt::format("there is no op named '{}'{}", name, did_you_mean(name, names)));
  }
  if (json) {
    Json list = Json::array();
    for (const OpDef* op : ops) list.push_back(definition_json(*op, true));
    fmt::print(args.out, "{}", json_text(list));
    return 0;
  }
  std::string out;
  for (const OpDef* op : ops) out += (out.empty() ? "" : "\n") + definition_text(*op);
  fmt::print(args.out, "{}", out);
  return 0;
}

// ---- the list

std::vector<const OpDef*> chosen(const std::string& kind, bool all) {
  std::vector<const OpDef*> ops = all_ops();
  std::erase_if(ops, [&](const OpDef* op) {
    return (!kind.empty() && kind_name(op->kind) != kind) ||
           (!all && op->info->name.starts_with('_'));
  });
  return ops;
}

// ---- the reference page

/// Text that Markdown would read as its own.
std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*_<>|[]#").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string definition_markdown(const OpDef& op) {
  const Samples samples = samples_of(op);
  std::string out = fmt::format("    {}\n\n{}\n", op.schema, markdown_text(op.doc));
  std::vector<std::string> facts;
  if (op.info->is_view) facts.push_back("shares the storage of its input");
  if (!op.info->aliases.empty())
    facts.push_back(fmt::format("also named `{}`", fmt::join(op.info->aliases, "`, `")));
  if (op.info->has_in_place) facts.push_back(fmt::format("in place: `{}_`", op.info->name));
  if (gradient_text(op) == "no") facts.push_back("no gradient");
  if (op.compose != nullptr) facts.push_back("written with other ops");
  if (!op.onnx.name.empty()) facts.push_back(fmt::format("ONNX {}", op.onnx.name));
  if (!facts.empty()) out += "\n" + fmt::format("{}", fmt::join(facts, "; ")) + ".\n";
  if (!samples.valid.empty())
    out += fmt::format("\nFor example `{}`.\n", call_text(samples.valid[0]));
  return out;
}

/// Every op under the heading of its kind, with its overloads under its name.
int write_reference(const Args& args, const std::vector<const OpDef*>& ops) {
  std::map<std::string, std::map<std::string, std::string>> kinds;
  for (const OpDef* op : ops) {
    std::string& entry = kinds[kind_name(op->kind)][op->info->name];
    entry += (entry.empty() ? "" : "\n") + definition_markdown(*op);
  }
  fmt::print(args.out, "# Operators\n\n");
  for (const auto& [kind, names] : kinds)
    fmt::print(args.out, "- [{0}](#{0}): {1}\n", kind, names.size());
  for (const auto& [kind, names] : kinds) {
    fmt::print(args.out, "\n## {}\n", kind);
    for (const auto& [name, text] : names)
      fmt::print(args.out, "\n### {}\n\n{}", markdown_text(name), text);
  }
  return 0;
}

int list(const Args& args, const std::vector<const OpDef*>& ops, bool json) {
  if (json) {
    Json j = Json::array();
    for (const OpDef* op : ops) j.push_back(definition_json(*op, false));
    fmt::print(args.out, "{}", json_text(j));
    return 0;
  }
  Table table({{"name"}, {"kind"}, {"what it does"}});
  std::string previous;
  for (const OpDef* op : ops) {
    // Overloads of a name stand under it and need no second line unless they do something else.
    const std::string doc = first_line(op->doc);
    const std::string line = op->info->name + doc;
    if (line == previous) continue;
    previous = line;
    table.add({op->info->name, kind_name(op->kind), doc});
  }
  fmt::print(args.out, "{}", table.print());
  fmt::print(args.err, "{} op definitions; for one of them: pellucid ops NAME\n", ops.size());
  return 0;
}

int run_ops(const Args& args) {
  std::string name, kind;
  bool all = false, json = false, markdown = false;
  CommandLine line(args);
  line.add_option("NAME", name, "The op to explain");
  line.add_option("--kind", kind, "Only ops of this kind: pointwise, reduction, …")
      ->type_name("KIND")
      ->check(one_of({kOpKindNames.begin(), kOpKindNames.end()}));
  line.add_flag("--all", all, "Also ops whose names begin with an underscore");
  line.add_flag("--markdown", markdown, "Write the reference page of all ops, in Markdown");
  line.add_json(json);
  line.read();
  if (!name.empty() && !kind.empty()) throw UsageError("--kind filters the list; leave out NAME");
  if (markdown && (!name.empty() || json))
    throw UsageError("--markdown writes one page of all ops; leave out NAME and --json");
  if (!name.empty()) return show(args, name, json);
  const std::vector<const OpDef*> ops = chosen(kind, all);
  return markdown ? write_reference(args, ops) : list(args, ops, json);
}

}  // namespace

const Command kOps{
    .name = "ops",
    .summary = "List the operators, or explain one",
    .description =
        "The catalogue of operators, made from the op definitions: name, kind and what they do. "
        "With a "
        "NAME: its schema (and those of its overloads), whether it has an in-place form and a "
        "gradient, its cost, calls that work and calls that fail.",
    .examples =
        "pellucid ops\n"
        "pellucid ops matmul\n"
        "pellucid ops --kind reduction\n"
        "pellucid ops softmax --json\n"
        "pellucid ops --markdown > ops.md",
    .run = run_ops};

}  // namespace pellucid::cli
