// Value: conversions and words for it.
#include "pellucid/value.h"

#include "pellucid/error.h"

namespace pellucid {

Value::Value(const Value& o) = default;
Value::Value(Value&& o) noexcept = default;
Value& Value::operator=(const Value& o) = default;
Value& Value::operator=(Value&& o) noexcept = default;
Value::~Value() = default;
Value::Value(const char* v) : v_(std::string(v)) {}
Value::Value(std::string v) : v_(std::move(v)) {}
Value::Value(std::string_view v) : v_(std::string(v)) {}
Value::Value(Tensor v) : v_(std::move(v)) {}
Value::Value(Values v) : v_(std::move(v)) {}
Value::Value(const Scalar& s) {
  if (s.isBoolean())
    v_ = s.toBool();
  else if (s.isFloatingPoint())
    v_ = s.toDouble();
  else
    v_ = s.toLong();
}
Value Value::ints(IntArrayRef v) { return Values(v.begin(), v.end()); }
Value Value::tensors(const std::vector<Tensor>& v) { return Values(v.begin(), v.end()); }

Scalar Value::scalar() const {
  if (const bool* b = as<bool>()) return *b;
  if (const int64_t* i = as<int64_t>()) return *i;
  if (const double* d = as<double>()) return *d;
  detail::raise<TypeError>("a number was expected, found {}.", type_name());
}

const Tensor& Value::tensor() const {
  if (const Tensor* t = as<Tensor>()) return *t;
  detail::raise<TypeError>("a Tensor was expected, found {}.", type_name());
}

const std::string& Value::toStringRef() const {
  if (const auto* s = as<std::string>()) return *s;
  detail::raise<TypeError>("a string was expected, found {}.", type_name());
}

const Values& Value::toListRef() const {
  if (const auto* v = as<Values>()) return *v;
  detail::raise<TypeError>("a list was expected, found {}.", type_name());
}

std::vector<int64_t> Value::toIntVector() const {
  std::vector<int64_t> out;
  for (const Value& v : toListRef()) out.push_back(v.toInt());
  return out;
}

std::vector<Tensor> Value::toTensorVector() const {
  std::vector<Tensor> out;
  for (const Value& v : toListRef()) out.push_back(v.tensor());
  return out;
}

std::string Value::type_name() const {
  struct Name {
    std::string operator()(None) const { return "None"; }
    std::string operator()(bool) const { return "bool"; }
    std::string operator()(int64_t) const { return "int"; }
    std::string operator()(double) const { return "float"; }
    std::string operator()(const std::string&) const { return "str"; }
    std::string operator()(DType) const { return "dtype"; }
    std::string operator()(MemoryFormat) const { return "memory_format"; }
    std::string operator()(const Tensor&) const { return "Tensor"; }
    std::string operator()(const Values& v) const {
      return v.empty() ? "list" : "list of " + v[0].type_name();
    }
  };
  return std::visit(Name{}, v_);
}

std::string Value::repr() const {
  struct Repr {
    std::string operator()(None) const { return "None"; }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return to_string(Scalar(v)); }
    std::string operator()(const std::string& v) const { return "'" + v + "'"; }
    std::string operator()(DType v) const { return std::string(name_of(v)); }
    std::string operator()(MemoryFormat v) const {
      return v == MemoryFormat::ChannelsLast ? "channels_last"
             : v == MemoryFormat::Preserve   ? "preserve_format"
                                             : "contiguous_format";
    }
    std::string operator()(const Tensor& v) const { return describe(v); }
    std::string operator()(const Values& v) const {
      std::string s = "[";
      for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + v[i].repr();
      return s + "]";
    }
  };
  return std::visit(Repr{}, v_);
}

std::string to_string(const Scalar& value) {
  if (value.isBoolean()) return value.toBool() ? "True" : "False";
  if (!value.isFloatingPoint()) return std::to_string(value.toLong());
  std::string s = fmt::format("{}", value.toDouble());
  if (s.find_first_of(".enai") == std::string::npos) s += ".0";
  return s;
}

}  // namespace pellucid
