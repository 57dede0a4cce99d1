// Says where infinities and NaN come from.
#pragma once

#include <string>

#include "cli/train/task.h"
#include "pellucid/io/checkpoint.h"

namespace pellucid::cli::train {

/// The number as text; the sign of a NaN means nothing and is left out.
std::string number_text(double value);

/// The first parameter or buffer that is not finite, or "".
std::string first_not_finite(const nn::Module& model);

/// A sentence on what turned not finite first when the loss of `batch` was computed with the random
/// numbers from `random`: data, parameters, or the result of an op, with the module it ran in. Runs
/// the batch again.
std::string blame(Task& task, const data::Example<>& batch, const io::RandomState& random);

/// The same where the loss is finite and its gradients are not: the op whose gradient is the first
/// NaN, or the first parameter with an infinite gradient.
std::string blame_gradient(Task& task, const data::Example<>& batch, const io::RandomState& random);

}  // namespace pellucid::cli::train
