// Words about a call, for anomaly mode and messages.
#pragma once

#include <string>

#include "pellucid/op.h"

namespace pellucid {

/// "matmul(float32[2, 3], float32[3, 4])": the op and its inputs.
PELLUCID_API std::string call_text(const Call& c);
/// The same and the program's line: "… at train.cpp:12".
std::string describe_call(const Call& c);

}  // namespace pellucid
