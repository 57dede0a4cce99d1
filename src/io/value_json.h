// Values as tagged JSON: ["i", 5], ["f", the bits of 1.5], ["s", "text"], ["l", [...]]. Numbers
// come back bit for bit, infinities and NaN too. Tensors are the caller's affair.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "pellucid/value.h"

namespace pellucid::io {

/// `tensor` writes a tensor as JSON of its own.
nlohmann::json to_json(const Value& value,
                       const std::function<nlohmann::json(const Tensor&)>& tensor);
/// The inverse; throws nlohmann::json::exception or IoError where the JSON is not such a value.
Value from_json(const nlohmann::json& json,
                const std::function<Tensor(const nlohmann::json&)>& tensor);

}  // namespace pellucid::io
