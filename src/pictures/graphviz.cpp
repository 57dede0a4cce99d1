// See graphviz.h.
#include "pictures/graphviz.h"

#include <dlfcn.h>

#include <type_traits>

#include "pellucid/error.h"

namespace pellucid::graph {
namespace {

// The major versions whose functions the headers declare. From libgvc.so.7 on the length is a
// size_t.
constexpr const char *kGraphs = "libcgraph.so.6", *kDrawing = "libgvc.so.6";
static_assert(std::is_same_v<decltype(&::gvRenderData),
                             int (*)(GVC_t*, graph_t*, const char*, char**, unsigned*)>,
              "these headers belong to another major version of libgvc: name it above");

/// The library, which stays loaded: Graphviz does not survive being closed and opened again.
void* open(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  PELLUCID_CHECK(
      handle, NotImplementedError,
      "pictures are drawn by Graphviz, which cannot be loaded: {}. Install it (Debian and "
      "Ubuntu: apt install libgvc6), or write the graph as .dot, which needs nothing.",
      dlerror());
  return handle;
}

template <class Function> void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  PELLUCID_CHECK(function, NotImplementedError,
                 "pictures are drawn by Graphviz, whose library here has no function {}. Install "
                 "another version of it, or write the graph as .dot, which needs nothing.",
                 name);
}

Graphviz load() {
  void* const graphs = open(kGraphs);
  void* const drawing = open(kDrawing);
  Graphviz g{};
  find(graphs, "agclose", g.agclose);
  find(graphs, "agdeledge", g.agdeledge);
  find(graphs, "agedge", g.agedge);
  find(graphs, "agfstnode", g.agfstnode);
  find(graphs, "agfstout", g.agfstout);
  find(graphs, "agget", g.agget);
  find(graphs, "aglasterr", g.aglasterr);
  find(graphs, "agmemread", g.agmemread);
  find(graphs, "agnameof", g.agnameof);
  find(graphs, "agnode", g.agnode);
  find(graphs, "agnxtnode", g.agnxtnode);
  find(graphs, "agnxtout", g.agnxtout);
  find(graphs, "agsafeset", g.agsafeset);
  find(graphs, "agseterr", g.agseterr);
  find(drawing, "gvContext", g.gvContext);
  find(drawing, "gvFreeLayout", g.gvFreeLayout);
  find(drawing, "gvFreeRenderData", g.gvFreeRenderData);
  find(drawing, "gvLayout", g.gvLayout);
  find(drawing, "gvRenderData", g.gvRenderData);
  return g;
}

}  // namespace

const Graphviz& graphviz() {
  static const Graphviz loaded = load();  // where it throws, the next call tries again
  return loaded;
}

OwnedGraph read_graph(const char* source) {
  return {graphviz().agmemread(source), graphviz().agclose};
}

}  // namespace pellucid::graph
