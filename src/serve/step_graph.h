// The graph of a recorded step: its ops in the boxes of their modules, joined by the blocks of
// memory that one writes and another reads.
#pragma once

#include "pellucid/profile.h"
#include "serve/graph_view.h"

namespace pellucid::serve {

/// Without nodes where the recording does not know the blocks of any step.
PELLUCID_API GraphView step_graph(const profile::Profile& p);

}  // namespace pellucid::serve
