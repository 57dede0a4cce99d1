// The backward engine: walks the tape from the newest node to the oldest.
#pragma once

#include "pellucid/autograd.h"

namespace pellucid::autograd {

/// Whether the backward run of this thread wants the gradient that would go along `edge`.
bool edge_needed(const Edge& edge);

}  // namespace pellucid::autograd
