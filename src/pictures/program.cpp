// make_dot of a program: one cluster for each stage, in it calls from top to bottom.
#include <map>

#include "pellucid/graph.h"
#include "pictures/dot_text.h"

namespace pellucid {
namespace {

class StageWriter {
 public:
  StageWriter(std::string& out, const ProgramStage& stage, size_t number, size_t most)
      : out_(out), stage_(stage), prefix_(fmt::format("s{}_", number)), most_(most) {}

  void write(std::string_view title) {
    line("  subgraph cluster_{} {{", prefix_);
    line("    label=\"{}\"; color=\"#b0b0b0\"; fontsize=11; style=rounded", title);
    const size_t shown = std::min(stage_.nodes.size(), most_);
    for (size_t i = 0; i < shown; ++i) node(i);
    for (size_t i = 0; i < shown; ++i) groups_[stage_.nodes[i].group].push_back(i);
    for (const auto& [group, members] : groups_)
      if (group >= 0) box(group, members);
    if (shown < stage_.nodes.size())
      line("    {}rest [label=\"… {} more calls\", shape=plaintext, style=\"\"]", prefix_,
           stage_.nodes.size() - shown);
    line("  }}");
    for (size_t i = 0; i < shown; ++i) edges(i);
  }

 private:
  template <class... Args> void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  void node(size_t i) {
    const ProgramNode& n = stage_.nodes[i];
    std::string label = graph::escape(n.op);
    for (size_t k = 0; k < n.outputs.size(); ++k)
      label += fmt::format("\\n{} {}", graph::escape(n.outputs[k]), graph::escape(n.forms[k]));
    line("    {}n{} [label=\"{}\"]", prefix_, i, label);
    for (const std::string& o : n.outputs) made_[o] = i;
  }
  void box(int group, const std::vector<size_t>& members) {
    line("    subgraph cluster_{}g{} {{", prefix_, group);
    line(
        "      label=\"one pass\"; color=\"#4f8a45\"; bgcolor=\"#eef7ec\"; fontsize=9; "
        "style=rounded");
    for (const size_t i : members) line("      {}n{}", prefix_, i);
    line("    }}");
  }
  void edges(size_t i) {
    for (const std::string& in : stage_.nodes[i].inputs) {
      if (in == "None") continue;
      if (const auto from = made_.find(in); from != made_.end() && from->second != i) {
        line("  {}n{} -> {}n{}", prefix_, from->second, prefix_, i);
        continue;
      }
      const std::string id = fmt::format("{}x{}", prefix_, outside_.size());
      const auto [at, fresh] = outside_.emplace(in, id);
      if (fresh)
        line("  {} [label=\"{}\", fillcolor=\"#cfe2f3\", color=\"#6d8fb3\", fontsize=9]", id,
             graph::escape(in));
      line("  {} -> {}n{}", at->second, prefix_, i);
    }
  }

  std::string& out_;
  const ProgramStage& stage_;
  const std::string prefix_;
  const size_t most_;
  std::map<std::string, size_t> made_;
  std::map<std::string, std::string> outside_;
  std::map<int, std::vector<size_t>> groups_;
};

}  // namespace

Dot make_dot(const Program& program, const DotOptions& options) {
  std::string out = graph::dot_head(options.rankdir);
  const std::vector<ProgramStage> stages = program.stages();
  const auto most = static_cast<size_t>(std::max(options.max_nodes, 1));
  std::string before;
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string now = stages[i].text();
    const bool last = i + 1 == stages.size();
    if (i > 0 && !last && now == before) continue;
    before = now;
    StageWriter(out, stages[i], i, most)
        .write(i == 0 ? "captured"
               : last ? "as it runs"
                      : "after " + stages[i].name);
  }
  return Dot(out + "}\n");
}

}  // namespace pellucid
