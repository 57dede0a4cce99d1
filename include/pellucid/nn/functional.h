// nn::functional: the layers without state. Most programs say `namespace F =
// torch::nn::functional`.
#pragma once

#include "pellucid/nn/functional/activation.h"
#include "pellucid/nn/functional/layers.h"
#include "pellucid/nn/functional/loss.h"
#include "pellucid/nn/functional/norm.h"
#include "pellucid/nn/functional/pooling.h"
#include "pellucid/nn/functional/vision.h"
