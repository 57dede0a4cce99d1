// The table of all op definitions. Built-in ones come from the generated registry.cpp, a program's
// own from register_op.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "pellucid/op.h"

namespace pellucid {

/// How the kinds of ops are called, in the order of OpKind.
inline constexpr std::array<std::string_view, 8> kOpKindNames = {
    "pointwise", "reduction", "contraction", "view", "index", "random", "creation", "opaque"};

/// Generated: the op definitions of src/ops.
std::span<const OpDef* const> built_in_ops();
/// The parsed schema of an op definition; registers built-in op definitions on first use.
const OpInfo& info_of(const OpDef& op);

}  // namespace pellucid
