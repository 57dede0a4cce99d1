// What a tensor asks of its autograd history. The history belongs to core, a higher layer, which
// defines these functions (core/autograd_meta.cpp); here a tensor only owns a pointer to it.
#pragma once

#include <string>

#include "pellucid/tensor.h"

namespace pellucid::detail {

/// Destroys what meta_of() made.
void release_meta(AutogradMeta* meta) noexcept;
/// The name of the tensor's node without its namespace: "MulBackward0"; "" where there is no node.
std::string grad_fn_name(const Tensor& t);

}  // namespace pellucid::detail
