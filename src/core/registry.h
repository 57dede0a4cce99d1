// The table of all records. Built-in ones come from the generated registry.cpp, a program's own
// from register_op.
#pragma once

#include <span>

#include "pellucid/op.h"

namespace pellucid {

/// Generated: the records of src/ops.
std::span<const OpDef* const> built_in_ops();
/// The parsed schema of a record; registers built-in records on first use.
const OpInfo& info_of(const OpDef& op);

}  // namespace pellucid
