// See anatomy.h.
#include "cli/analyze/anatomy.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "cli/app.h"
#include "cli/data/child.h"
#include "cli/expr/compile.h"
#include "cli/expr/parser.h"
#include "cli/timing.h"
#include "core/generated_support.h"
#include "pellucid/analyze.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

using expr::Ast;
using expr::Kind;
using expr::NodeId;

// A loop around some work.
template <class F> TimedLoop loop_of(const F& work) {
  return [&work](int64_t number) {
    return seconds_of([&] {
      for (int64_t i = 0; i < number; ++i) work();
    });
  };
}

// Nanoseconds of one run of each: of the blocks that share `seconds`, the fastest, because what
// disturbs a block only adds to it. The loops take turns, so that a drift of the machine hits all
// alike: parts are differences of them.
std::vector<Timing> in_turns(double seconds, const std::vector<TimedLoop>& loops) {
  constexpr int kBlocks = 9;
  std::vector<int64_t> numbers;
  for (const TimedLoop& loop : loops)
    numbers.push_back(loop ? autorange(loop, seconds / kBlocks) : 0);
  std::vector<std::vector<double>> blocks(loops.size());
  for (int block = 0; block < kBlocks; ++block)
    for (size_t i = 0; i < loops.size(); ++i)
      if (loops[i])
        blocks[i].push_back(loops[i](numbers[i]) / static_cast<double>(numbers[i]) * 1e9);
  std::vector<Timing> out;
  for (std::vector<double>& b : blocks) {
    if (b.empty()) {
      out.emplace_back();
      continue;
    }
    const double least = *std::min_element(b.begin(), b.end());
    out.push_back({least, median(b) - least});
  }
  return out;
}

// The nodes of the op's operands: x and y of x + y, f(x, y) or x.f(y).
std::vector<NodeId> operands_of(const Ast& ast, NodeId root) {
  const auto children = ast.children(root);
  if (ast[root].kind != Kind::Call) return {children.begin(), children.end()};
  std::vector<NodeId> out;
  const NodeId callee = children[0];
  if (ast[callee].kind == Kind::Attribute && ast.source_text(ast.child(callee, 0)) != "torch")
    out.push_back(ast.child(callee, 0));
  for (const NodeId argument : children.subspan(1)) out.push_back(argument);
  return out;
}

Attr attr_of(const Value& v, ArgType type) {
  if (const std::string* s = v.as<std::string>()) return Attr(std::string_view(*s));
  if (const DType* t = v.as<DType>()) return Attr(*t);
  if (!v.is_number()) return Attr();
  if (type == ArgType::Float) return Attr(v.scalar().toDouble());
  if (type == ArgType::Scalar) return Attr(v.scalar());
  if (type == ArgType::Bool) return Attr(v.scalar().toBool());
  return Attr(v.scalar().toLong());
}

}  // namespace

/// What the dispatcher takes.
struct OneOp::Bound {
  std::deque<Tensor> tensors;
  std::vector<const Tensor*> inputs;
  std::vector<Attr> attrs;
};

OneOp::OneOp(const std::string& expression)
    : source_(expression), code_(expr::compile(expression)) {
  const Ast ast = expr::parse_expression(expression);
  const NodeId root = ast.statements().front();
  const auto fail = [&](const std::string& why) {
    throw UsageError(fmt::format(
        "anatomy takes one op on variables and numbers, such as 'x + y' or 'exp(x)'; {}", why));
  };
  for (const NodeId id : operands_of(ast, root)) {
    const expr::Node& n = ast[id];
    const bool name = n.kind == Kind::Name;
    if (!name && n.kind != Kind::Integer && n.kind != Kind::Float)
      fail(fmt::format("'{}' is neither", ast.source_text(id)));
    operands_.push_back(name ? ast.text(id) : "");
    numbers_.push_back(n.kind == Kind::Float ? Scalar(n.number) : Scalar(n.integer));
    if (name && std::find(variables_.begin(), variables_.end(), ast.text(id)) == variables_.end())
      variables_.push_back(ast.text(id));
  }
  if (variables_.empty()) fail("there is no variable in it");
  Machine machine;
  const NoGradGuard off;
  set_inputs(machine, 4, false);
  {
    const EstimateGuard guard;
    machine.run(code_);
    if (guard.calls().size() != 1) fail(fmt::format("this makes {} calls", guard.calls().size()));
    op_ = guard.calls()[0].op;
  }
  const Object result = machine.run(code_);
  const Bound b = bind(machine);
  if (!result.tensor() || !call1(*op_, b.inputs, b.attrs).equal(*result.tensor()))
    fail(fmt::format("{} takes its arguments in another form", op_->info->name));
}

void OneOp::set_inputs(Machine& machine, int64_t elements, bool gradients) const {
  bool first = gradients;
  for (const std::string& name : variables_) {
    const Tensor t = rand({elements});
    if (std::exchange(first, false)) t.requires_grad_();
    machine.set(name, t);
  }
}

OneOp::Bound OneOp::bind(const Machine& machine) const {
  Bound b;
  std::vector<Value> values;
  for (size_t i = 0; i < operands_.size(); ++i)
    values.push_back(operands_[i].empty() ? Value(numbers_[i])
                                          : Value(*machine.find(operands_[i])->tensor()));
  size_t next = 0;
  for (const Arg& a : op_->info->args) {
    const Value& v = next < values.size() && !a.keyword_only ? values[next++] : a.default_value;
    if (a.type == ArgType::Device) continue;
    if (a.type != ArgType::Tensor)
      b.attrs.push_back(attr_of(v, a.type));
    else if (const Tensor* t = v.as<Tensor>())
      b.tensors.push_back(*t);
    else
      b.tensors.push_back(v.is_number() ? wrapped_number(v.scalar()) : Tensor());
  }
  for (const Tensor& t : b.tensors) b.inputs.push_back(&t);
  return b;
}

AnatomyTimings OneOp::time(int64_t elements, double seconds) const {
  Machine plain, tracking;
  set_inputs(plain, elements, false);
  set_inputs(tracking, elements, true);
  const Bound b = bind(plain), tracked = bind(tracking);
  const bool differentiable = op_->vjp != no_gradient;
  Call c(*op_, b.inputs, b.attrs);
  op_->infer(c);
  const size_t bytes = c.out().nbytes();
  c.out().impl().storage = detail::new_storage(bytes);
  const auto whole = [&] { (differentiable ? tracking : plain).run(code_); };
  const auto call_tracked = [&] { call1(*op_, tracked.inputs, tracked.attrs); };
  const auto call_plain = [&] { call1(*op_, b.inputs, b.attrs); };
  const auto infer = [&] {
    Call each(*op_, b.inputs, b.attrs);
    op_->infer(each);
  };
  const auto allocate = [&] { detail::new_storage(bytes); };
  const auto kernel = [&] { op_->kernel(c); };
  const std::vector<Timing> t =
      in_turns(seconds, {loop_of(whole), differentiable ? loop_of(call_tracked) : TimedLoop(),
                         loop_of(call_plain), loop_of(infer), loop_of(allocate),
                         op_->kernel ? loop_of(kernel) : TimedLoop()});
  return {.whole = t[0],
          .call = {},
          .tracked = differentiable ? t[1] : t[2],
          .plain = t[2],
          .infer = t[3],
          .allocation = t[4],
          .kernel = t[5]};
}

Anatomy OneOp::measure(int64_t elements, double seconds) const {
  return cli::parts_of(elements, time(elements, seconds), false);
}

Anatomy parts_of(int64_t elements, const AnatomyTimings& t, bool python) {
  Anatomy a{.elements = elements, .whole = t.whole};
  const auto difference = [](const Timing& outer, Timing& inner) {
    inner.ns = std::min(inner.ns, outer.ns);  // what contains another takes no less
    return AnatomyPart{outer.ns - inner.ns, outer.noise + inner.noise};
  };
  Timing call = t.call, tracked = t.tracked, plain = t.plain;
  if (python) {
    a.expression = difference(t.whole, call);
    a.binding = difference(call, tracked);
  } else {
    a.expression = difference(t.whole, tracked);
  }
  a.tape = difference(tracked, plain);
  const double alone = t.infer.ns + t.allocation.ns + t.kernel.ns;
  a.excess = alone > plain.ns && plain.ns > 0 ? alone / plain.ns - 1 : 0;
  const double scale = 1 / (1 + a.excess);
  const auto part = [&](const Timing& timing) {
    return AnatomyPart{timing.ns * scale, timing.noise + timing.ns * (1 - scale)};
  };
  a.infer = part(t.infer);
  a.allocation = part(t.allocation);
  a.kernel = part(t.kernel);
  a.rest = {std::max(0.0, plain.ns - alone * scale),
            plain.noise + t.infer.noise + t.allocation.noise + t.kernel.noise};
  return a;
}

std::vector<Anatomy> OneOp::measure_in_python(const std::string& interpreter,
                                              const std::vector<int64_t>& sizes,
                                              double seconds) const {
  using Json = nlohmann::json;
  const Json question = {{"expression", source_},   {"op", op_->info->name},
                         {"variables", variables_}, {"gradients", op_->vjp != no_gradient},
                         {"sizes", sizes},          {"seconds", seconds}};
  // Away from the caller's folder, which `-m` would search for modules.
  const std::string program = interpreter.find('/') == std::string::npos
                                  ? interpreter
                                  : std::filesystem::absolute(interpreter).string();
  const ChildResult child =
      run_child({program, "-m", "pellucid.profiler._anatomy", question.dump()}, "/");
  std::string last = child.output;
  while (!last.empty() && last.back() == '\n') last.pop_back();
  last = last.substr(last.rfind('\n') + 1);
  PELLUCID_CHECK(child.exit_code == 0, IoError,
                 "anatomy: '{}' could not measure with the package pellucid: {}. Install it "
                 "(docs/python.md), or name the interpreter that has it with --interpreter.",
                 interpreter, last.empty() ? "it printed nothing" : text::visible(last));
  const Json found = Json::parse(last, nullptr, false);
  std::vector<Anatomy> out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PELLUCID_CHECK(found.is_array() && found.size() == sizes.size() && found[i].is_object(),
                   IoError, "anatomy: '{}' answered '{}'.", interpreter, text::visible(last));
    AnatomyTimings t = time(sizes[i], seconds);
    const double tape = std::max(0.0, t.tracked.ns - t.plain.ns);
    const auto told = [&](const char* name) {
      return Timing{found[i].value(name, 0.0), found[i].value(std::string(name) + "_noise", 0.0)};
    };
    t.whole = told("whole");
    t.call = told("call");
    t.tracked = told("dispatch");
    t.plain = {std::max(0.0, t.tracked.ns - tape), t.plain.noise};
    out.push_back(cli::parts_of(sizes[i], t, true));
  }
  return out;
}

}  // namespace pellucid::cli
