// See profile_header.h.
#include "serve/profile_header.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "pellucid/machine.h"
#include "pellucid/profile_report.h"
#include "profile/memory_use.h"
#include "profile/reports.h"
#include "profile/sources.h"
#include "profile/time_parts.h"
#include "serve/family.h"
#include "serve/step_graph.h"

namespace pellucid::serve {
namespace {

using Json = nlohmann::ordered_json;
using namespace profile;

Json pairs_json(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json j = Json::object();
  for (const auto& [key, value] : pairs) j[key] = value;
  return j;
}

Json run_json(const Profile& p) {
  const RunInfo& r = p.run;
  return {{"program", r.program},
          {"mode", r.mode},
          {"version", r.version},
          {"started", r.started},
          {"isa", r.isa},
          {"threads", r.threads},
          {"duration", r.duration},
          {"exit_code", r.exit_code},
          {"signal", r.signal},
          {"complete", r.complete},
          {"dropped", r.dropped},
          {"event_cost", r.event_cost},
          {"recorded_bytes", r.recorded_bytes},
          {"sample_rate", r.sample_rate},
          {"memory_at_start", r.memory_at_start},
          {"folder", r.folder},
          {"revision", r.revision},
          {"facts", pairs_json(r.facts)},
          {"variables", pairs_json(r.variables)}};
}

// What a view needs and the recording does not have, and the command that records it.
Json missing_json(const Profile& p) {
  Json missing = Json::object();
  const auto add = [&](const char* what, std::string why, const char* option = "") {
    missing[what] = {{"why", std::move(why)},
                     {"command", fmt::format("pellucid profile {}-- {}", option, p.run.program)}};
  };
  const bool stacks =
      std::any_of(p.events.begin(), p.events.end(), [](const Event& e) { return e.stack >= 0; });
  if (p.events.empty())
    add("events",
        p.run.mode == "trace"
            ? "The program called no op while it was recorded."
            : fmt::format("This recording was made with --{}, which keeps no times of ops.",
                          p.run.mode));
  if (!stacks && !p.events.empty())
    add("stacks", "This recording has the line of each op, but not its whole call stack.",
        "--stacks ");
  if (p.sources.empty() && !p.sites.empty())
    add("sources", "This recording has no text of the program's source files.");
  if (p.uses.empty() && !p.events.empty())
    add("uses",
        p.run.mode == "trace" && (p.run.format == 0 || p.run.format >= 5)
            ? "This recording has no second step, whose ops' blocks would be known."
            : "This recording does not know which blocks of memory each op reads, writes and "
              "saves.",
        "--step 1 ");
  if (p.samples.empty()) add("samples", "This recording has no samples.", "--sample ");
  if (!p.run.stalls_missing.empty())
    add("stalls", "When page faults and switches happened is not known: " + p.run.stalls_missing);
  if (!rates_of(p.machine).known())
    missing["ceilings"] = {{"why", "What the machine of this recording can do was not measured."},
                           {"command", "pellucid doctor"}};
  return missing;
}

Json machine_json(const Profile& p) {
  const MachineRates rates = rates_of(p.machine);
  if (!rates.known()) return nullptr;
  Json bandwidth = Json::object(), levels = Json::array();
  for (const MemoryRate& level : rates.levels) {
    bandwidth[level.level] = level.bytes_per_second;
    levels.push_back({{"name", level.level},
                      {"bytes", level.bytes},
                      {"bytes_per_second", level.bytes_per_second},
                      {"access", name_of(level.access)}});
  }
  return {{"cpu", p.machine.cpu},   {"isa", p.machine.isa}, {"threads", p.machine.threads},
          {"busy", rates.busy},     {"text", rates.text()}, {"flops", rates.flops_per_second},
          {"bandwidth", bandwidth}, {"levels", levels}};
}

// The rows of the overview's first table, without their sum.
Json parts_json(const ReportTable& overview) {
  Json parts = Json::array();
  for (const auto& row : overview.rows)
    if (row[0].text != "sum")
      parts.push_back(
          {{"name", row[0].text}, {"ns", 1e9 * row[1].number}, {"share", row[2].number}});
  return parts;
}

Json totals_json(const Profile& p, const Overhead& o) {
  const MemoryPeak peak(p);
  double flops = 0, bytes = 0;
  for (const Event& e : p.events) {
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind != EventKind::Op) continue;
    flops += s.flops;
    bytes += s.bytes;
  }
  Json totals = {{"duration_ns", p.run.duration},
                 {"total_ns", o.whole()},
                 {"op_ns", o.op_time},
                 {"ops", o.ops},
                 {"events", p.events.size()},
                 {"peak_bytes", peak.total},
                 {"peak_ns", peak.time},
                 {"flops", flops},
                 {"bytes", bytes},
                 {"recording_ns", o.recording},
                 {"dispatch_ns", o.dispatch.nanoseconds}};
  if (rates_of(p.machine).known()) {
    // Every op at its ceiling, and all else as it was.
    const TimeParts parts(p, o);
    totals["at_best_ns"] =
        o.whole() - static_cast<double>(o.op_time) + parts.ops.compute + parts.ops.memory;
  }
  return totals;
}

Json tensors_json(const std::vector<TensorInfo>& tensors) {
  Json list = Json::array();
  for (const TensorInfo& t : tensors) list.push_back({name_of(t.dtype), t.sizes});
  return list;
}

Json signatures_json(const Profile& p) {
  const std::vector<std::string_view> families = families_of(p);
  const MachineRates rates = rates_of(p.machine);
  Json list = Json::array();
  for (size_t i = 0; i < p.signatures.size(); ++i) {
    const Signature& s = p.signatures[i];
    Json j = {{"kind", name_of(s.kind)},
              {"name", s.name},
              {"family", families[i]},
              {"inputs", tensors_json(s.inputs)},
              {"outputs", tensors_json(s.outputs)},
              {"attributes", s.attributes},
              {"flops", s.flops},
              {"contraction_flops", s.contraction_flops},
              {"bytes", s.bytes}};
    if (s.kind == EventKind::Op && s.has_cost && rates.known())
      j["bound"] = rates.least(s.flops, s.bytes).memory_bound() ? "memory" : "compute";
    list.push_back(std::move(j));
  }
  return list;
}

Json sites_json(const Profile& p) {
  Json list = Json::array();
  for (const Site& s : p.sites)
    list.push_back({{"file", s.file},
                    {"line", s.line},
                    {"function", s.function},
                    {"object", s.object},
                    {"python", s.python},
                    {"own", is_own(s)}});
  return list;
}

Json modules_json(const Profile& p) {
  Json list = Json::array();
  for (const ModuleInfo& m : p.modules)
    list.push_back({{"parent", m.parent},
                    {"name", m.name},
                    {"path", m.path},
                    {"type", m.type},
                    {"parameters", m.parameters},
                    {"parameter_bytes", m.parameter_bytes}});
  return list;
}

Json names_json(const Profile& p) {
  Json threads = Json::array(), categories = Json::array();
  for (const Thread& t : p.threads)
    threads.push_back({{"process", t.process}, {"number", t.id}, {"name", t.name}});
  for (int c = 0; c < kMemoryCategoryCount; ++c)
    categories.push_back(pellucid::name_of(static_cast<MemoryCategory>(c)));
  return {{"signatures", signatures_json(p)},
          {"sites", sites_json(p)},
          {"modules", modules_json(p)},
          {"threads", threads},
          {"categories", categories}};
}

Json sources_json(const Profile& p, Sources which) {
  Json list = Json::array();
  for (const SourceFile& s : p.sources) {
    Json j = {{"file", s.file}, {"hash", s.hash}, {"changed", !unchanged(s, p.run.folder)}};
    if (which == Sources::With) j["text"] = s.text;
    list.push_back(std::move(j));
  }
  return list;
}

struct TableOrder {
  const char* key;
  const char* table;
  const char* by;
};

// Every table of `pellucid report` that this recording has the data for, by its name and grouping.
std::vector<TableOrder> tables_of(const Profile& p) {
  std::vector<TableOrder> orders = {{"overview", "overview", ""}};
  if (p.run.mode == "count") orders.push_back({"counts", "counts", ""});
  if (!p.samples.empty())
    for (const auto& [key, by] :
         {std::pair("samples", "line"), {"samples-function", "function"}, {"samples-op", "op"}})
      orders.push_back({key, "samples", by});
  if (p.events.empty()) return orders;
  for (const auto& [key, by] : {std::pair("torch", "op"),
                                {"torch-shape", "shape"},
                                {"torch-line", "line"},
                                {"torch-module", "module"}})
    orders.push_back({key, "torch", by});
  for (const auto& [key, by] : {std::pair("roofline", "op"),
                                {"roofline-shape", "shape"},
                                {"roofline-line", "line"},
                                {"roofline-module", "module"}})
    orders.push_back({key, "roofline", by});
  for (const char* name :
       {"cprofile", "modules", "summary", "memory", "peak", "timeline", "steps", "advice"})
    orders.push_back({name, name, ""});
  return orders;
}

std::string tables_text(const Profile& p) {
  std::string out = "{";
  for (const TableOrder& order : tables_of(p))
    out += fmt::format("{}{}: {}", out.size() > 1 ? ",\n" : "", text::json_string(order.key),
                       to_json(report(p, order.table, {.by = order.by, .limit = 0})));
  return out + "}";
}

Json steps_json(const Profile& p) {
  if (p.events.empty()) return nullptr;
  const Steps steps(p);
  if (steps.spans.empty()) return nullptr;
  return {{"what", steps.what}, {"count", steps.spans.size()}};
}

}  // namespace

Strings strings_of(const Profile& p) {
  Strings out;
  std::map<std::string_view, int32_t> known;
  for (const BlockUse& u : p.uses) {
    if (u.name.empty()) {
      out.of_use.push_back(-1);
      continue;
    }
    const auto [it, is_new] = known.try_emplace(u.name, static_cast<int32_t>(out.texts.size()));
    if (is_new) out.texts.push_back(u.name);
    out.of_use.push_back(it->second);
  }
  return out;
}

std::string profile_header(const Profile& p, std::string_view name, Sources sources) {
  const Overhead overhead(p);
  Json header = {{"kind", "profile"},
                 {"name", name},
                 {"format", p.run.format},
                 {"pellucid", p.run.version},
                 {"run", run_json(p)},
                 {"missing", missing_json(p)},
                 {"notes", p.run.notes},
                 {"warnings", Json::array()},
                 {"machine", machine_json(p)},
                 {"sentence", overview_sentence(p)},
                 {"totals", totals_json(p, overhead)},
                 {"steps", steps_json(p)},
                 {"sources", sources_json(p, sources)},
                 {"strings", strings_of(p).texts},
                 {"graphs", Json::array()}};
  if (const GraphView step = step_graph(p); !step.nodes.empty())
    header["graphs"].push_back(step.laid_out());
  if (const std::string ended = ending_of(p.run); !ended.empty())
    header["warnings"].push_back(fmt::format("The program {}.", ended));
  if (const std::string why = rates_of(p.machine).warning(); !why.empty())
    header["warnings"].push_back(why);
  header["parts"] = parts_json(report(p, "overview", {.limit = 0})[0]);
  header.update(names_json(p));
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  return text + ",\n\"tables\": " + tables_text(p) + "}";
}

}  // namespace pellucid::serve
