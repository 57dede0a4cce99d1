// What the programs of tests/libtorch/programs/ include: pellucid in libtorch's place, or libtorch
// itself where PELLUCID_WITH_LIBTORCH is defined (tests/libtorch/run builds them with it). Nothing
// else of a program differs.
#pragma once

#ifdef PELLUCID_WITH_LIBTORCH
#include <torch/torch.h>
#else
#include "pellucid/torch.h"
#endif
