// What `pellucid view` was asked to show, read whole: a file that changes or disappears later
// changes nothing.
#pragma once

#include <string>
#include <vector>

#include "serve/graph_view.h"
#include "serve/page.h"
#include "serve/view_data.h"

namespace pellucid::cli::view {

/// The items of a page, with the view data of each.
struct Opened {
  std::vector<serve::PageItem> items;
  std::vector<std::string> data;
  std::vector<std::string> folders;                   ///< of each item that is a run, else ""
  std::vector<std::vector<serve::GraphView>> graphs;  ///< of each item, as its header has them
};

/// Answers POST /api/layout: {"item": 0, "graph": 0, "open": ["b0", …]} gives the graph with these
/// boxes open. Throws ValueError for what there is not.
std::string answer_layout(const Opened& opened, const std::string& body);
/// Reads the profiles and run folders of both sides; where each has profiles, a comparison comes
/// last. Throws IoError
/// for what cannot be read, ValueError for profiles that cannot be compared.
Opened open_files(const std::vector<std::string>& first, const std::vector<std::string>& second,
                  serve::Sources sources);

/// An expression with its values, gradients and graph, for the page's playground.
Opened open_expression(const std::string& expression, const std::vector<std::string>& bindings);

}  // namespace pellucid::cli::view
