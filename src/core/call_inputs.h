// The tensors of a call by the arguments of its schema.
#pragma once

#include "core/registry.h"
#include "pellucid/op.h"

namespace pellucid {

/// Calls f(argument of the schema, number of the input) for each tensor that was given.
template <class F> void for_each_input(const Call& c, const F& f) {
  const OpInfo& info = *c.op().info;
  size_t i = 0;
  const size_t list_length = c.inputs().size() + 1 - static_cast<size_t>(info.tensor_args);
  for (const Arg& a : info.args) {
    if (a.type != ArgType::Tensor && a.type != ArgType::TensorList) continue;
    for (size_t n = a.type == ArgType::TensorList ? list_length : 1; n > 0; --n, ++i)
      if (c.has_in(i)) f(a, i);
  }
}

}  // namespace pellucid
