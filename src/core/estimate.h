// The door's side of EstimateGuard.
#pragma once

#include "pellucid/estimate.h"
#include "tensor/phantom.h"

namespace pellucid::estimate {

/// The storage of an output under a guard.
detail::Ref<detail::Storage> new_storage(const Call& call, size_t bytes);
/// Counts the call; returns whether its kernel is to run all the same, because it is about numbers.
bool count(const Call& call);

}  // namespace pellucid::estimate
