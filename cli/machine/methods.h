// Methods and attributes of tensors that are not ops: facts, conversions, autograd.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cli/machine/functions.h"

namespace pellucid::cli {

using TensorMethod = Object (*)(const Tensor& self, Arguments arguments);

/// Null for a name that is no such method.
TensorMethod find_method(std::string_view name);
std::vector<std::string_view> method_names();

/// shape, dtype, T, grad…; nothing for another name.
std::optional<Object> tensor_attribute(const Tensor& self, std::string_view name);
std::vector<std::string_view> attribute_names();

}  // namespace pellucid::cli
