// DOT text to SVG, PNG and PDF through libgraphviz. The library is not thread-safe and does not
// survive a second context, so there is one context, made on first use and used under a lock.
#include <fcntl.h>
#include <graphviz/cgraph.h>
#include <graphviz/gvc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "pellucid/graph.h"

namespace pellucid {
namespace {

std::mutex graphviz_mutex;

GVC_t* context() {
  static GVC_t* made = [] {
    agseterr(AGMAX);  // messages of Graphviz go nowhere: errors are exceptions here
    return gvContext();
  }();
  return made;
}

void write_whole(const std::string& file, const std::string& bytes) {
  const std::string temporary = file + ".part";
  std::FILE* f = std::fopen(temporary.c_str(), "wb");
  PELLUCID_CHECK(f, IoError, "cannot write {}: {}.", file, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
  const int problem = errno;
  const bool closed = std::fclose(f) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), file.c_str()) != 0) {
    const int reason = written ? errno : problem;
    std::remove(temporary.c_str());
    detail::raise<IoError>("cannot write {}: {}.", file, std::strerror(reason));
  }
}

}  // namespace

std::string Dot::render(const std::string& format) const {
  if (format == "dot" || format == "gv") return source_;
  PELLUCID_CHECK(format == "svg" || format == "png" || format == "pdf", ValueError,
                 "a graph can be written as svg, png, pdf or dot, not as '{}'.", format);
  const std::lock_guard lock(graphviz_mutex);
  GVC_t* gvc = context();
  const std::unique_ptr<Agraph_t, int (*)(Agraph_t*)> graph(agmemread(source_.c_str()), agclose);
  PELLUCID_CHECK(graph, ValueError, "Graphviz cannot read the graph.");
  PELLUCID_CHECK(gvLayout(gvc, graph.get(), "dot") == 0, ValueError,
                 "Graphviz cannot lay the graph out: {}.", aglasterr() ? aglasterr() : "");
  char* data = nullptr;
  unsigned length = 0;
  const int failed = gvRenderData(gvc, graph.get(), format.c_str(), &data, &length);
  std::string bytes(failed || !data ? "" : std::string(data, length));
  if (data) gvFreeRenderData(data);
  gvFreeLayout(gvc, graph.get());
  PELLUCID_CHECK(!failed, ValueError, "Graphviz cannot write {}.", format);
  return bytes;
}

void Dot::save(const std::string& file) const {
  const size_t dot = file.rfind('.');
  PELLUCID_CHECK(dot != std::string::npos && file.find('/', dot) == std::string::npos, ValueError,
                 "'{}' has no ending; name the file .svg, .png, .pdf or .dot.", file);
  write_whole(file, render(file.substr(dot + 1)));
}

}  // namespace pellucid
