// Reads an op's schema text into OpInfo. The language is that of PyTorch's native functions with
// additions: name|other for other names of the op, name[_] for an op that has an in-place form,
// Tensor|Scalar for a tensor that may be a number.
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "pellucid/op.h"

namespace pellucid {
namespace {

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  OpInfo parse() {
    OpInfo info;
    info.name = word("the op's name");
    while (accept("|")) info.aliases.push_back(word("another name of the op"));
    info.in_place_only = accept("[_!]");
    info.has_in_place = info.in_place_only || accept("[_]");
    if (accept(".")) info.overload = word("the overload's name");
    expect("(");
    bool keyword_only = false;
    while (!accept(")")) {
      if (accept("*"))
        keyword_only = true;
      else
        info.args.push_back(argument(keyword_only));
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    expect("->");
    outputs(info);
    skip_space();
    if (at_ != text_.size()) fail("nothing more was expected");
    finish(info);
    return info;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    detail::raise<ValueError>("schema '{}': {} at column {}.", text_, what, at_ + 1);
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}' was expected", token));
  }
  std::string word(std::string_view what) {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (at_ == start) fail(fmt::format("{} was expected", what));
    return std::string(text_.substr(start, at_ - start));
  }

  Arg argument(bool keyword_only) {
    Arg a;
    a.keyword_only = keyword_only;
    const std::string type = word("a type");
    static constexpr std::pair<std::string_view, ArgType> types[] = {
        {"Tensor", ArgType::Tensor},    {"Scalar", ArgType::Scalar},
        {"int", ArgType::Int},          {"float", ArgType::Float},
        {"bool", ArgType::Bool},        {"str", ArgType::Text},
        {"ScalarType", ArgType::DType}, {"MemoryFormat", ArgType::Format},
        {"Device", ArgType::Device}};
    bool known = false;
    for (const auto& [name, t] : types)
      if (type == name) {
        a.type = t;
        known = true;
      }
    if (!known) fail(fmt::format("'{}' is not a type", type));
    if (a.type == ArgType::Tensor && accept("|Scalar")) a.scalar_too = true;
    if (accept("(a!)"))
      a.mutated = true;
    else
      accept("(a)");
    if (accept("?[]")) {
      a.type = ArgType::TensorList;
      a.optional_elements = true;
    } else
      list_suffix(a);
    if (accept("?")) a.optional = true;
    a.name = word("the argument's name");
    if (accept("=")) {
      a.has_default = true;
      a.default_value = literal(a);
    }
    return a;
  }

  void list_suffix(Arg& a) {
    if (!accept("[")) return;
    if (a.type == ArgType::Tensor)
      a.type = ArgType::TensorList;
    else if (a.type == ArgType::Int)
      a.type = ArgType::Ints;
    else
      fail("only Tensor and int have lists");
    if (!accept("]")) {
      a.fixed_length = std::stoi(word("the list's length"));
      expect("]");
    }
  }

  Value literal(const Arg& a) {
    if (accept("None")) return {};
    if (accept("True")) return true;
    if (accept("False")) return false;
    if (accept("inf")) return std::numeric_limits<double>::infinity();
    if (accept("-inf")) return -std::numeric_limits<double>::infinity();
    if (accept("contiguous_format")) return MemoryFormat::Contiguous;
    if (accept("preserve_format")) return MemoryFormat::Preserve;
    if (accept("'")) {
      const size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) fail("a closing ' was expected");
      Value v(text_.substr(at_, end - at_));
      at_ = end + 1;
      return v;
    }
    if (accept("[")) {
      Values list;
      while (!accept("]")) {
        list.push_back(number());
        accept(",");
      }
      return list;
    }
    if (a.type == ArgType::DType) return dtype_from_name(word("a dtype"));
    return number();
  }

  Value number() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && (at_ == start || text_[at_ - 1] == 'e'))))
      ++at_;
    const std::string_view digits = text_.substr(start, at_ - start);
    int64_t i = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), i);
    if (error == std::errc() && end == digits.data() + digits.size()) return i;
    double d = 0;
    auto [fend, ferror] = std::from_chars(digits.data(), digits.data() + digits.size(), d);
    if (ferror != std::errc() || fend != digits.data() + digits.size())
      fail("a number was expected");
    return d;
  }

  void output(OpInfo& info) {
    if (word("an output type") != "Tensor") fail("only Tensor outputs exist");
    if (accept("(a)")) info.is_view = true;
    if (accept("[]")) info.output_list = true;
    skip_space();
    info.output_names.push_back(
        at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' ? word("a name") : "");
  }

  void outputs(OpInfo& info) {
    if (accept("()")) return;
    if (accept("(")) {
      do output(info);
      while (accept(","));
      expect(")");
    } else {
      output(info);
    }
  }

  static void finish(OpInfo& info) {
    info.visible_outputs = 0;
    for (const std::string& n : info.output_names) info.visible_outputs += !n.starts_with('_');
    for (const Arg& a : info.args) {
      info.mutates |= a.mutated;
      if (a.type == ArgType::TensorList) info.list_position = info.tensor_args;
      if (a.type == ArgType::Tensor || a.type == ArgType::TensorList) ++info.tensor_args;
    }
    bool upper = true;  // scaled_dot_product -> ScaledDotProductBackward0
    for (char c : info.name) {
      if (c == '_') {
        upper = true;
        continue;
      }
      info.node_name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
    info.node_name += "Backward0";
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

OpInfo parse_schema(std::string_view schema) { return SchemaParser(schema).parse(); }

}  // namespace pellucid
