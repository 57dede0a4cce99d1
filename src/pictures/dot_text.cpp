#include "pictures/dot_text.h"

#include <fmt/format.h>

#include "base/escape.h"

namespace pellucid::graph {

std::string dot_head(std::string_view rankdir) {
  return fmt::format(
      "digraph pellucid {{\n"
      "  graph [rankdir={}, nodesep=0.25, ranksep=0.35, fontname=\"DejaVu Sans\", bgcolor=white]\n"
      "  node [shape=box, style=\"filled,rounded\", fillcolor=\"#e8e8e8\", color=\"#8a8a8a\", "
      "fontname=\"DejaVu Sans\", fontsize=10, height=0.25, margin=\"0.08,0.04\"]\n"
      "  edge [color=\"#5a5a5a\", arrowsize=0.6, fontname=\"DejaVu Sans\", fontsize=8]\n",
      rankdir);
}

// Names come from programs and files. Graphviz takes \N and &lt; in a label for more than text.
std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text::printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '&')
      out += "&amp;";
    else
      out += c == '\t' ? ' ' : c;
  }
  return out;
}

}  // namespace pellucid::graph
