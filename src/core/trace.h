// Words about a call, for anomaly mode and messages.
#pragma once

#include <string>

#include "pellucid/op.h"

namespace pellucid {

/// "matmul(float32[2, 3], float32[3, 4]) at train.cpp:12": the op, its inputs and the program's
/// line.
std::string describe_call(const Call& c);

}  // namespace pellucid
