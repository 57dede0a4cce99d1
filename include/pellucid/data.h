// Data sets, transforms, samplers, loaders and text.
#pragma once

#include "pellucid/data/dataloader.h"
#include "pellucid/data/datasets/base.h"
#include "pellucid/data/datasets/drawn_digits.h"
#include "pellucid/data/datasets/mnist.h"
#include "pellucid/data/datasets/tensor.h"
#include "pellucid/data/datasets/text.h"
#include "pellucid/data/example.h"
#include "pellucid/data/samplers.h"
#include "pellucid/data/tokenizers.h"
#include "pellucid/data/transforms.h"

namespace pellucid::data {
using datasets::BatchDataset;
using datasets::Dataset;
}  // namespace pellucid::data
