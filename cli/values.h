// Values as people and programs read them: one line, a block of lines, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/machine/object.h"

namespace pellucid::cli {

/// One line: "-0.7568" for one element, "[0.5000, 1.2500]" while it is short, else "float32[64,
/// 128]".
std::string brief(const Tensor& t);
std::string brief(const Object& object);

/// "prefix" followed by the value: a number on the same line, a tensor as PyTorch prints it, its
/// further lines indented below its first and cut after a few.
std::string with_value(const std::string& prefix, const Object& object);

/// Numbers as numbers, tensors as nested lists (null beyond 10,000 elements), NaN and infinities as
/// the strings "nan", "inf" and "-inf", which JSON has no numbers for.
nlohmann::ordered_json value_json(const Tensor& t);
nlohmann::ordered_json value_json(const Object& object);
/// {"shape": …, "dtype": …, "value": …} for a tensor, {"value": …} for anything else.
nlohmann::ordered_json described_json(const Object& object);

/// A count that was summed as a double: an integer where it is whole.
nlohmann::ordered_json count_json(double count);

/// Pretty JSON and a newline, never throwing for bytes that are not UTF-8.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace pellucid::cli
