// See step_graph.h.
#include "serve/step_graph.h"

#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "profile/index.h"
#include "serve/family.h"

namespace pellucid::serve {
namespace {

using namespace profile;
using Json = nlohmann::ordered_json;

class StepGraph {
 public:
  explicit StepGraph(const Profile& p) : p_(p), families_(families_of(p)) {
    g_.title = "recorded step";
    g_.kind = "step";
    for (const BlockUse& use : p.uses) {
      const int32_t node = node_of(use.event);
      switch (use.kind) {
        case BlockUse::Kind::Read:
          read(use, node);
          break;
        case BlockUse::Kind::Write:
          writer_[use.allocation] = node;
          break;
        case BlockUse::Kind::Saved:
          g_.nodes[at(node)].more["saved"].push_back(
              {{"name", use.name},
               {"allocation", use.allocation},
               {"bytes", p.allocations[at(use.allocation)].bytes}});
          break;
      }
    }
  }
  GraphView take() { return std::move(g_); }

 private:
  // Forward, backward and update of a module lie in boxes of their own: the first leads to the
  // second through all others.
  int32_t box_of(Phase phase, int32_t module) {
    const auto [it, is_new] = boxes_.try_emplace({phase, module}, -1);
    if (!is_new) return it->second;
    GraphView::Box box;
    if (module < 0) {
      if (phase == Phase::Forward) return -1;  // the program itself
      box.name = name_of(phase);
    } else {
      const ModuleInfo& m = p_.modules[at(module)];
      box.parent = box_of(phase, m.parent);
      box.name = m.name == m.type || m.name.empty() ? m.type : m.name + ": " + m.type;
    }
    g_.boxes.push_back(std::move(box));
    return boxes_[{phase, module}] = static_cast<int32_t>(g_.boxes.size()) - 1;
  }

  int32_t node_of(int32_t event) {
    const auto [it, is_new] = nodes_.try_emplace(event, static_cast<int32_t>(g_.nodes.size()));
    if (!is_new) return it->second;
    const Event& e = p_.events[at(event)];
    const Signature& s = p_.signatures[at(e.signature)];
    Json more = {{"name", s.name},       {"family", families_[at(e.signature)]},
                 {"event", event},       {"time_ns", e.end - e.begin},
                 {"flops", s.flops},     {"bytes", s.bytes},
                 {"site", e.site},       {"module", e.module},
                 {"shape", shape_of(s)}, {"phase", static_cast<int>(e.phase)}};
    g_.nodes.push_back(
        {fmt::format("n{}", g_.nodes.size()), box_of(e.phase, e.module), s.name, std::move(more)});
    return it->second;
  }

  // What the step did not make itself: parameters and data are drawn, other blocks are not.
  int32_t source_of(int32_t allocation, int32_t reader) {
    const Allocation& a = p_.allocations[at(allocation)];
    if (a.category != MemoryCategory::Parameter && a.category != MemoryCategory::Data) return -1;
    const std::string what(pellucid::name_of(a.category));
    g_.nodes.push_back({fmt::format("n{}", g_.nodes.size()),
                        g_.nodes[at(reader)].box,
                        what,
                        {{"name", what},
                         {"family", "other"},
                         {"allocation", allocation},
                         {"bytes", a.bytes},
                         {"leaf", true}}});
    return static_cast<int32_t>(g_.nodes.size()) - 1;
  }

  void read(const BlockUse& use, int32_t node) {
    const auto [it, is_new] = writer_.try_emplace(use.allocation, -1);
    if (is_new) it->second = source_of(use.allocation, node);
    if (it->second < 0 || it->second == node || !joined_.emplace(it->second, node).second) return;
    Json more = {{"allocation", use.allocation}};
    if (const Json& from = g_.nodes[at(it->second)].more; from.contains("shape"))
      more["label"] = from["shape"];
    g_.edges.push_back({it->second, node,
                        p_.allocations[at(use.allocation)].category == MemoryCategory::Gradient
                            ? "gradient"
                            : "data",
                        std::move(more)});
  }

  static std::string shape_of(const Signature& s) {
    return s.outputs.empty() ? "" : fmt::format("[{}]", fmt::join(s.outputs[0].sizes, ", "));
  }

  const Profile& p_;
  std::vector<std::string_view> families_;
  GraphView g_;
  std::map<std::pair<Phase, int32_t>, int32_t> boxes_;
  std::map<int32_t, int32_t> nodes_;   // by event
  std::map<int32_t, int32_t> writer_;  // by allocation: the latest, or the node that it came from
  std::set<std::pair<int32_t, int32_t>> joined_;
};

}  // namespace

GraphView step_graph(const Profile& p) { return StepGraph(p).take(); }

}  // namespace pellucid::serve
