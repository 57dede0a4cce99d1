// Digits drawn from strokes: a data set of MNIST's form that needs no file and no network.
#pragma once

#include "pellucid/data/datasets/mnist.h"

namespace pellucid::data::datasets {

/// `count` images of 28 x 28 with their labels, 0 to 9 in turn. Strokes of varying width are
/// turned, sheared, scaled, shifted and bent. Image i depends on the seed and i alone.
PELLUCID_API MNIST drawn_digits(int64_t count, uint64_t seed = 0,
                                MNIST::Mode mode = MNIST::Mode::kTrain);

}  // namespace pellucid::data::datasets
