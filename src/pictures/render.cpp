// DOT text to SVG, PNG and PDF through Graphviz. The library is not thread-safe and does not
// survive a second context, so there is one context, made on first use and used under a lock.
#include <mutex>

#include "base/atomic_file.h"
#include "pellucid/graph.h"
#include "pictures/graphviz.h"
#include "pictures/references.h"

namespace pellucid {
namespace {

std::mutex graphviz_mutex;

GVC_t* context() {
  static GVC_t* made = [] {
    // Messages of Graphviz go nowhere: errors are exceptions here.
    graph::graphviz().agseterr(AGMAX);
    return graph::graphviz().gvContext();
  }();
  return made;
}

}  // namespace

std::string Dot::render(const std::string& format) const {
  if (format == "dot" || format == "gv") return source_;
  PELLUCID_CHECK(format == "svg" || format == "png" || format == "pdf", ValueError,
                 "a graph can be written as svg, png, pdf or dot, not as '{}'.", format);
  const std::lock_guard lock(graphviz_mutex);
  const graph::Graphviz& api = graph::graphviz();
  GVC_t* gvc = context();
  const graph::OwnedGraph drawn = graph::read_graph(source_.c_str());
  PELLUCID_CHECK(drawn, ValueError, "Graphviz cannot read the graph.");
  graph::simplify(drawn.get());
  PELLUCID_CHECK(api.gvLayout(gvc, drawn.get(), "dot") == 0, ValueError,
                 "Graphviz cannot lay the graph out: {}.", api.aglasterr() ? api.aglasterr() : "");
  char* data = nullptr;
  unsigned length = 0;
  const int failed = api.gvRenderData(gvc, drawn.get(), format.c_str(), &data, &length);
  std::string bytes(failed || !data ? "" : std::string(data, length));
  if (data) api.gvFreeRenderData(data);
  api.gvFreeLayout(gvc, drawn.get());
  PELLUCID_CHECK(!failed, ValueError, "Graphviz cannot write {}.", format);
  return bytes;
}

void Dot::save(const std::string& file) const {
  const size_t dot = file.rfind('.');
  PELLUCID_CHECK(dot != std::string::npos && file.find('/', dot) == std::string::npos, ValueError,
                 "'{}' has no ending; name the file .svg, .png, .pdf or .dot.", file);
  const std::string picture = render(file.substr(dot + 1));
  io::write_file("graph", file, picture);
}

}  // namespace pellucid
