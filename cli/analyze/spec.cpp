// From a spec to modules: the expression parser's tree, and a table of layers with their arguments.
#include "cli/analyze/spec.h"

#include <algorithm>

#include "cli/expr/parser.h"
#include "cli/text.h"
#include "pellucid/nn.h"

namespace pellucid::cli {
namespace {

using expr::Ast;
using expr::Kind;
using expr::NodeId;

nn::AnyModule build(const Ast& ast, NodeId id);

// The arguments of one layer, by name.
class Arguments {
 public:
  Arguments(const Ast& ast, NodeId call, const std::vector<std::string>& names)
      : ast_(ast), call_(call), names_(names), values_(names.size(), expr::kAbsent) {
    size_t next = 0;
    bool first = true;
    for (const NodeId child : ast.children(call)) {
      if (std::exchange(first, false)) continue;  // the callee
      if (ast[child].kind == Kind::Keyword) {
        const auto at = std::find(names.begin(), names.end(), ast.text(child));
        if (at == names.end())
          fail(child, fmt::format("{} has no argument '{}'{}", layer(), ast.text(child),
                                  did_you_mean(ast.text(child), names)));
        values_[static_cast<size_t>(at - names.begin())] = ast.child(child, 0);
      } else {
        if (next >= names.size())
          fail(child, fmt::format("{} takes at most {} argument{}", layer(), names.size(),
                                  names.size() == 1 ? "" : "s"));
        values_[next++] = child;
      }
    }
  }

  int64_t integer(size_t i) const { return *integer_at(required(i)); }
  int64_t integer(size_t i, int64_t otherwise) const {
    return given(i) ? *integer_at(values_[i]) : otherwise;
  }
  bool flag(size_t i, bool otherwise) const {
    if (!given(i)) return otherwise;
    if (ast_[values_[i]].kind != Kind::Bool) fail(values_[i], "expected True or False");
    return ast_[values_[i]].integer != 0;
  }
  double number(size_t i, double otherwise) const {
    if (!given(i)) return otherwise;
    const expr::Node& n = ast_[values_[i]];
    if (n.kind == Kind::Float) return n.number;
    return static_cast<double>(*integer_at(values_[i]));
  }
  /// An int, or a tuple or list of them.
  std::vector<int64_t> integers(size_t i) const {
    const NodeId id = required(i);
    if (ast_[id].kind != Kind::Tuple && ast_[id].kind != Kind::List) return {*integer_at(id)};
    std::vector<int64_t> out;
    for (const NodeId e : ast_.children(id)) out.push_back(*integer_at(e));
    return out;
  }
  /// The same for two dims: one int stands for both.
  ExpandingArray<2> pair(size_t i) const {
    const std::vector<int64_t> v = integers(i);
    if (v.size() > 2) fail(values_[i], "expected one or two numbers");
    return ExpandingArray<2>({v[0], v.back()});
  }
  ExpandingArray<2> pair(size_t i, int64_t otherwise) const {
    return given(i) ? pair(i) : ExpandingArray<2>(otherwise);
  }
  bool given(size_t i) const { return values_[i] != expr::kAbsent; }

  [[noreturn]] void fail(NodeId at, std::string message) const {
    throw expr::ExprError(ast_.source(), ast_[at].span, std::move(message));
  }

 private:
  std::string layer() const { return ast_.text(ast_.child(call_, 0)); }
  NodeId required(size_t i) const {
    if (!given(i)) fail(call_, fmt::format("{} needs its argument '{}'", layer(), names_[i]));
    return values_[i];
  }
  std::optional<int64_t> integer_at(NodeId id) const {
    const expr::Node& n = ast_[id];
    if (n.kind == Kind::Integer) return n.integer;
    if (n.kind == Kind::Unary && n.unary_op() == expr::UnaryOp::Negative)
      return -*integer_at(ast_.child(id, 0));
    fail(id, "expected a whole number");
  }

  const Ast& ast_;
  NodeId call_;
  const std::vector<std::string>& names_;
  std::vector<NodeId> values_;
};

struct Layer {
  std::string name;
  std::vector<std::string> arguments;
  nn::AnyModule (*make)(const Arguments& a);
};

template <class M> nn::AnyModule plain(const Arguments&) { return nn::AnyModule(M()); }

const std::vector<Layer>& layers() {
  using A = const Arguments&;
  using nn::AnyModule;
  static const std::vector<std::string> kConv = {
      "in_channels", "out_channels", "kernel_size", "stride", "padding", "groups", "bias"};
  static const std::vector<std::string> kPool = {"kernel_size", "stride", "padding"};
  static const std::vector<Layer> kLayers = {
      {"Linear",
       {"in_features", "out_features", "bias"},
       [](A a) {
         return AnyModule(
             nn::Linear(nn::LinearOptions(a.integer(0), a.integer(1)).bias(a.flag(2, true))));
       }},
      {"Conv2d", kConv,
       [](A a) {
         return AnyModule(nn::Conv2d(nn::Conv2dOptions(a.integer(0), a.integer(1), a.pair(2))
                                         .stride(a.pair(3, 1))
                                         .padding(a.pair(4, 0))
                                         .groups(a.integer(5, 1))
                                         .bias(a.flag(6, true))));
       }},
      {"Conv1d", kConv,
       [](A a) {
         return AnyModule(nn::Conv1d(nn::Conv1dOptions(a.integer(0), a.integer(1), a.integer(2))
                                         .stride(a.integer(3, 1))
                                         .padding(a.integer(4, 0))
                                         .groups(a.integer(5, 1))
                                         .bias(a.flag(6, true))));
       }},
      {"MaxPool2d", kPool,
       [](A a) {
         return AnyModule(nn::MaxPool2d(nn::MaxPool2dOptions(a.pair(0))
                                            .stride(a.given(1) ? a.pair(1) : a.pair(0))
                                            .padding(a.pair(2, 0))));
       }},
      {"AvgPool2d", kPool,
       [](A a) {
         return AnyModule(nn::AvgPool2d(nn::AvgPool2dOptions(a.pair(0))
                                            .stride(a.given(1) ? a.pair(1) : a.pair(0))
                                            .padding(a.pair(2, 0))));
       }},
      {"BatchNorm1d",
       {"num_features"},
       [](A a) { return AnyModule(nn::BatchNorm1d(a.integer(0))); }},
      {"BatchNorm2d",
       {"num_features"},
       [](A a) { return AnyModule(nn::BatchNorm2d(a.integer(0))); }},
      {"LayerNorm",
       {"normalized_shape"},
       [](A a) { return AnyModule(nn::LayerNorm(nn::LayerNormOptions(a.integers(0)))); }},
      {"RMSNorm",
       {"normalized_shape"},
       [](A a) { return AnyModule(nn::RMSNorm(nn::RMSNormOptions(a.integers(0)))); }},
      {"Embedding",
       {"num_embeddings", "embedding_dim"},
       [](A a) { return AnyModule(nn::Embedding(a.integer(0), a.integer(1))); }},
      {"Dropout", {"p"}, [](A a) { return AnyModule(nn::Dropout(a.number(0, 0.5))); }},
      {"Flatten",
       {"start_dim", "end_dim"},
       [](A a) {
         return AnyModule(nn::Flatten(
             nn::FlattenOptions().start_dim(a.integer(0, 1)).end_dim(a.integer(1, -1))));
       }},
      {"Softmax", {"dim"}, [](A a) { return AnyModule(nn::Softmax(a.integer(0, -1))); }},
      {"LogSoftmax", {"dim"}, [](A a) { return AnyModule(nn::LogSoftmax(a.integer(0, -1))); }},
      {"TransformerEncoderLayer",
       {"d_model", "nhead", "dim_feedforward", "dropout"},
       [](A a) {
         return AnyModule(nn::TransformerEncoderLayer(
             nn::TransformerEncoderLayerOptions(a.integer(0), a.integer(1))
                 .dim_feedforward(a.integer(2, 2048))
                 .dropout(a.number(3, 0.1))));
       }},
      {"ReLU", {}, plain<nn::ReLU>},
      {"GELU", {}, plain<nn::GELU>},
      {"SiLU", {}, plain<nn::SiLU>},
      {"Tanh", {}, plain<nn::Tanh>},
      {"Sigmoid", {}, plain<nn::Sigmoid>},
      {"LeakyReLU", {}, plain<nn::LeakyReLU>},
      {"Softplus", {}, plain<nn::Softplus>},
      {"Identity", {}, plain<nn::Identity>}};
  return kLayers;
}

nn::AnyModule build_sequential(const Ast& ast, NodeId id) {
  nn::Sequential out;
  bool first = true;
  for (const NodeId child : ast.children(id)) {
    if (std::exchange(first, false)) continue;
    out->push_back(build(ast, child));
  }
  return nn::AnyModule(out);
}

// "12 * Linear(8, 8)": twelve layers, one after another, each with weights of its own.
nn::AnyModule build_repeated(const Ast& ast, NodeId id) {
  constexpr int64_t kMost = 1000;
  const NodeId times = ast.child(id, 0);
  const int64_t count = ast[times].kind == Kind::Integer ? ast[times].integer : 0;
  if (ast[id].binary_op() != expr::BinaryOp::Multiply || count < 1 || count > kMost)
    throw expr::ExprError(
        ast.source(), ast[times].span,
        fmt::format("expected a number from 1 to {} and a layer, as in 12 * Linear(8, 8)", kMost));
  nn::Sequential out;
  for (int64_t i = 0; i < count; ++i) out->push_back(build(ast, ast.child(id, 1)));
  return nn::AnyModule(out);
}

// Nesting is bounded by the parser (kMaxNesting).
nn::AnyModule build(const Ast& ast, NodeId id) {
  const auto fail = [&](NodeId at, std::string message) {
    throw expr::ExprError(ast.source(), ast[at].span, std::move(message));
  };
  if (ast[id].kind == Kind::Binary) return build_repeated(ast, id);
  if (ast[id].kind != Kind::Call || ast[ast.child(id, 0)].kind != Kind::Name)
    fail(id, "expected a layer such as Linear(784, 128)");
  const std::string& name = ast.text(ast.child(id, 0));
  if (name == "Sequential") return build_sequential(ast, id);
  for (const Layer& l : layers())
    if (l.name == name) return l.make(Arguments(ast, id, l.arguments));
  fail(ast.child(id, 0),
       fmt::format("there is no layer '{}' here{}", name, did_you_mean(name, layer_names())));
  return {};
}

}  // namespace

std::vector<std::string> layer_names() {
  std::vector<std::string> out = {"Sequential"};
  for (const Layer& l : layers()) out.push_back(l.name);
  return out;
}

nn::AnyModule parse_module(const std::string& spec) {
  const Ast ast = expr::parse_expression(spec);
  return build(ast, ast.statements().front());
}

}  // namespace pellucid::cli
