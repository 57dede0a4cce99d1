// See values.h. Printing of whole tensors is the library's; here it is only laid out.
#include "cli/values.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/text.h"
#include "pellucid/autograd.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBriefElements = 4, kJsonElements = 10'000;
constexpr int kMaxLines = 14, kLinesBeforeCut = 6;
constexpr int kWidestPrefix = 28;  // a longer prefix puts the tensor on a line of its own

std::string number_text(const Scalar& s) {
  if (s.isFloatingPoint()) return format_value4(s.toDouble());
  return to_string(s);
}

Json number_json(const Scalar& s) {
  if (s.isBoolean()) return s.toBool();
  if (!s.isFloatingPoint()) return s.toLong();
  const double value = s.toDouble();
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

std::string list_text(const Tensor& t) {
  if (t.dim() == 0) return number_text(t.item());
  std::string out = "[";
  for (int64_t i = 0; i < t.size(0); ++i) out += (i > 0 ? ", " : "") + list_text(t[i]);
  return out + "]";
}

Json nested(const Tensor& t) {
  if (t.dim() == 0) return number_json(t.item());
  Json out = Json::array();
  for (int64_t i = 0; i < t.size(0); ++i) out.push_back(nested(t[i]));
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string tensor_block(const std::string& prefix, const Tensor& t) {
  const std::string text = t.detach().toString();
  const std::vector<std::string_view> lines = lines_of(text);
  const bool own_line = lines.size() > 1 && display_width(prefix) > kWidestPrefix;
  const auto indent = static_cast<size_t>(own_line ? 4 : display_width(prefix));
  const bool cut = lines.size() > static_cast<size_t>(kMaxLines);
  std::string out = prefix;
  if (own_line) {
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n' + std::string(indent, ' ');
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool hidden = cut && i >= kLinesBeforeCut && i + kLinesBeforeCut < lines.size();
    if (hidden && i > kLinesBeforeCut) continue;
    const std::string line = hidden ? "       ..." : std::string(lines[i]);
    if (i > 0) out += '\n';
    if (i > 0 && !line.empty()) out += std::string(indent, ' ');
    out += line;
  }
  return out;
}

}  // namespace

std::string brief(const Tensor& t) {
  if (!t.defined()) return "undefined";
  const NoGradGuard off;
  return t.numel() <= kBriefElements && t.numel() > 0 ? list_text(t.detach()) : describe(t);
}

std::string brief(const Object& object) {
  if (const Tensor* t = object.tensor()) return brief(*t);
  if (object.as<double>() != nullptr) return expr::print_float(*object.as<double>());
  const auto joined = [](const auto& elements) {
    std::string out;
    for (const auto& e : elements) out += (out.empty() ? "" : ", ") + brief(Object(e));
    return out;
  };
  if (const Tuple* tuple = object.tuple())
    return "(" + joined(*tuple) + (tuple->size() == 1 ? ",)" : ")");
  if (const Values* list = object.list()) return "[" + joined(*list) + "]";
  return object.repr();
}

std::string with_value(const std::string& prefix, const Object& object) {
  const NoGradGuard off;
  const Tensor* t = object.tensor();
  if (t != nullptr && t->dim() == 0) return prefix + number_text(t->item());
  if (t != nullptr) return tensor_block(prefix, *t);
  return prefix + brief(object);
}

Json value_json(const Tensor& t) {
  const NoGradGuard off;
  if (!t.defined() || t.numel() > kJsonElements) return nullptr;
  return nested(t.detach());
}

Json value_json(const Object& object) {
  if (const Tensor* t = object.tensor()) return value_json(*t);
  if (object.is_none()) return nullptr;
  if (object.is_number()) return number_json(object.scalar());
  if (const std::string* text = object.as<std::string>()) return *text;
  Json out = Json::array();
  if (const Tuple* tuple = object.tuple())
    for (const Object& o : *tuple) out.push_back(value_json(o));
  else if (const Values* list = object.list())
    for (const Value& v : *list) out.push_back(value_json(Object(v)));
  else
    return object.repr();
  return out;
}

Json described_json(const Object& object) {
  Json out;
  if (const Tensor* t = object.tensor()) {
    out["shape"] = std::vector<int64_t>(t->sizes().begin(), t->sizes().end());
    out["dtype"] = name_of(t->dtype());
  }
  out["value"] = value_json(object);
  return out;
}

Json count_json(double count) {
  if (count == std::floor(count) && std::abs(count) < 0x1p63) return static_cast<int64_t>(count);
  return count;
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pellucid::cli
