// The functions of Graphviz that draw pictures, found when the first picture is drawn: a program
// that draws none runs where Graphviz is not installed.
#pragma once

#include <graphviz/cgraph.h>
#include <graphviz/gvc.h>

#include <memory>

namespace pellucid::graph {

/// Functions of libcgraph and libgvc under their own names.
struct Graphviz {
  decltype(&::agclose) agclose;
  decltype(&::agdeledge) agdeledge;
  decltype(&::agedge) agedge;
  decltype(&::agfstnode) agfstnode;
  decltype(&::agfstout) agfstout;
  decltype(&::agget) agget;
  decltype(&::aglasterr) aglasterr;
  decltype(&::agmemread) agmemread;
  decltype(&::agnameof) agnameof;
  decltype(&::agnode) agnode;
  decltype(&::agnxtnode) agnxtnode;
  decltype(&::agnxtout) agnxtout;
  decltype(&::agsafeset) agsafeset;
  decltype(&::agseterr) agseterr;
  decltype(&::gvContext) gvContext;
  decltype(&::gvFreeLayout) gvFreeLayout;
  decltype(&::gvFreeRenderData) gvFreeRenderData;
  decltype(&::gvLayout) gvLayout;
  decltype(&::gvRenderData) gvRenderData;
};

/// Loads Graphviz on the first call; throws NotImplementedError where it is not installed.
const Graphviz& graphviz();

using OwnedGraph = std::unique_ptr<Agraph_t, decltype(&::agclose)>;

/// The graph of this DOT text; null where Graphviz cannot read it.
OwnedGraph read_graph(const char* source);

}  // namespace pellucid::graph
