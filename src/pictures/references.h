// Pictures that Graphviz would need minutes for: edges that cross many ranks cost it a hidden node
// a rank each. Beyond a limit such edges are drawn as references: a dashed box beside where they go
// to, which names where they come from.
#pragma once

#include <graphviz/cgraph.h>

#include <string>

#include "pellucid/api.h"

namespace pellucid::graph {

/// Replaces long edges where there are too many, and makes Graphviz try less hard where a graph is
/// still large; a note for the picture says so. Returns the note, "" where nothing was changed.
std::string simplify(Agraph_t* graph);

/// The note that a picture of this DOT text gets.
PELLUCID_API std::string note_of(const std::string& source);

}  // namespace pellucid::graph
