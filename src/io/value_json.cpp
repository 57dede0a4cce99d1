// Values as tagged JSON, and back.
#include "io/value_json.h"

#include <bit>
#include <cstdlib>

#include "pellucid/error.h"

namespace pellucid::io {
namespace {

using Json = nlohmann::json;
constexpr int kDeepest = 64;

Value read(const Json& json, const std::function<Tensor(const Json&)>& tensor, int depth) {
  const auto tag = json.at(0).get<std::string>();
  if (tag == "n") return {};
  const Json& v = json.at(1);
  if (tag == "b") return v.get<bool>();
  if (tag == "i") {
    PELLUCID_CHECK(v.is_number_integer(), IoError, "a saved int is not an integer.");
    return v.get<int64_t>();
  }
  if (tag == "f") return std::bit_cast<double>(v.get<uint64_t>());
  if (tag == "s") return v.get<std::string>();
  if (tag == "d") return dtype_from_name(v.get<std::string>());
  if (tag == "t") return tensor(v);
  PELLUCID_CHECK(tag == "l" && depth < kDeepest && v.is_array(), IoError,
                 "a saved value has the unknown tag '{}'.", tag);
  Values list;
  for (const Json& e : v) list.push_back(read(e, tensor, depth + 1));
  return list;
}

}  // namespace

Json to_json(const Value& value, const std::function<Json(const Tensor&)>& tensor) {
  if (value.is_none()) return {"n"};
  if (const bool* v = value.as<bool>()) return {"b", *v};
  if (const int64_t* v = value.as<int64_t>()) return {"i", *v};
  if (const double* v = value.as<double>()) return {"f", std::bit_cast<uint64_t>(*v)};
  if (const std::string* v = value.as<std::string>()) return {"s", *v};
  if (const DType* v = value.as<DType>()) return {"d", std::string(name_of(*v))};
  if (const Tensor* v = value.as<Tensor>()) {
    if (!v->defined()) return {"n"};
    return {"t", tensor(*v)};
  }
  const Values* list = value.as<Values>();
  PELLUCID_CHECK(list, TypeError, "save: a value of type {} cannot be saved.", value.type_name());
  Json all = Json::array();
  for (const Value& e : *list) all.push_back(to_json(e, tensor));
  return {"l", all};
}

Value from_json(const Json& json, const std::function<Tensor(const Json&)>& tensor) {
  return read(json, tensor, 0);
}

}  // namespace pellucid::io
