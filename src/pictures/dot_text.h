// What all pictures in DOT share: how they begin, and text inside labels.
#pragma once

#include <string>
#include <string_view>

namespace pellucid::graph {

/// The first lines of a picture: "digraph pellucid {" and how nodes and edges look.
std::string dot_head(std::string_view rankdir);
/// A label's text.
std::string escape(std::string_view text);

}  // namespace pellucid::graph
