// The names of the export formats, and the flat ones: collapsed stacks, CSV and JSON.
#include <fmt/ranges.h>

#include "base/escape.h"
#include "pellucid/error.h"
#include "profile/exports.h"
#include "profile/functions.h"
#include "profile/index.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

struct Format {
  ReportName name;
  void (*write)(const Profile&, Output&);
};

const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats = {
      {{"chrome", "a trace for Perfetto, chrome://tracing and TensorBoard"}, export_chrome},
      {{"speedscope", "a profile for speedscope.app"}, export_speedscope},
      {{"pstats", "statistics for Python's pstats, SnakeViz and tuna"}, export_pstats},
      {{"collapsed", "stacks with their nanoseconds, for flamegraph.pl and others"},
       export_collapsed},
      {{"csv", "one line for each event"}, export_csv},
      {{"json", "everything that was recorded"}, export_json},
      {{"html", "one page with an icicle and the tables"}, export_html}};
  return kFormats;
}

}  // namespace

void Output::format_args(fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(buffer_), format, args);
  if (buffer_.size() > kPiece) flush();
}

const std::vector<ReportName>& export_formats() {
  static const std::vector<ReportName> kNames = [] {
    std::vector<ReportName> names;
    for (const Format& f : formats()) names.push_back(f.name);
    return names;
  }();
  return kNames;
}

void export_profile(const Profile& p, std::string_view format, std::ostream& out) {
  std::vector<std::string_view> words;
  for (const Format& f : formats()) words.push_back(f.name.name);
  const Format& chosen = formats()[choose(format, words, "formats")];
  validate(p);
  Output output(out);
  chosen.write(p, output);
}

std::vector<std::vector<int32_t>> events_by_thread(const Profile& p) {
  std::vector<std::vector<int32_t>> events(p.threads.size());
  for (size_t i = 0; i < p.events.size(); ++i)
    events[at(p.events[i].thread)].push_back(static_cast<int32_t>(i));
  return events;
}

std::vector<std::string> json_names(const Profile& p) {
  std::vector<std::string> names;
  for (const Signature& s : p.signatures) names.push_back(text::json_string(s.name));
  return names;
}

std::string json_sizes(const std::vector<TensorInfo>& tensors) {
  std::string out = "[";
  for (const TensorInfo& t : tensors)
    out += fmt::format("{}[{}]", out.size() > 1 ? "," : "", fmt::join(t.sizes, ","));
  return out + "]";
}

// ---- collapsed stacks

namespace {

// A frame may hold neither the separator nor a line's end.
std::string frame_text(std::string name) {
  std::replace(name.begin(), name.end(), ';', ':');
  return text::visible(name);
}

void collapsed_samples(const Profile& p, Output& out) {
  std::vector<int64_t> counts(p.frames.size());
  for (const Sample& s : p.samples)
    if (s.stack >= 0) ++counts[at(s.stack)];
  std::vector<std::string> path(p.frames.size());  // callers come before those they call
  for (size_t i = 0; i < p.frames.size(); ++i) {
    const Frame& f = p.frames[i];
    if (f.parent >= 0) path[i] = path[at(f.parent)] + ';';
    path[i] += f.site < 0 ? "(unknown)"
                          : frame_text(function_name(p, f.site, p.sites[at(f.site)].function));
    if (counts[i] > 0) out.print("{} {}\n", path[i], counts[i]);
  }
}

}  // namespace

void export_collapsed(const Profile& p, Output& out) {
  if (p.events.empty() && !p.samples.empty()) return collapsed_samples(p, out);
  const FunctionStats stats(p);
  const CallTree tree(p, stats.functions);
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(stats.functions.number.size()));
  for (int32_t f = 0; f < stats.functions.number.size(); ++f)
    names.push_back(frame_text(function_name(p, stats.site(f), stats.name(f))));
  std::vector<int32_t> path;
  for (const CallNode& n : tree.nodes) {
    if (n.self <= 0) continue;
    path.assign(1, n.function);
    for (int32_t i = n.parent; i >= 0; i = tree.nodes[at(i)].parent)
      path.push_back(tree.nodes[at(i)].function);
    for (size_t i = path.size(); i-- > 0;) {
      out.put(names[at(path[i])]);
      if (i > 0) out.put(";");
    }
    out.print(" {}\n", n.self);
  }
}

// ---- one line for each event

void export_csv(const Profile& p, Output& out) {
  std::vector<std::string> names, inputs, files, modules;
  for (const Signature& s : p.signatures) {
    names.push_back(text::csv_cell(s.name));
    inputs.push_back(text::csv_cell(s.inputs.empty() ? "" : shapes_of(s.inputs)));
  }
  for (const Site& s : p.sites) files.push_back(text::csv_cell(s.file));
  for (const ModuleInfo& m : p.modules)
    modules.push_back(text::csv_cell(m.path.empty() ? m.type : m.path));
  out.put(
      "event,parent,thread,kind,name,begin_ns,end_ns,self_ns,phase,step,file,line,module,forward,"
      "allocated_bytes,freed_bytes,flops,bytes,input_shapes\n");
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const Signature& s = p.signatures[at(e.signature)];
    out.print("{},{},{},{},{},{},{},{},{},{},", i, e.parent, p.threads[at(e.thread)].id,
              name_of(s.kind), names[at(e.signature)], e.begin, e.end, e.self, name_of(e.phase),
              e.step);
    if (e.site >= 0)
      out.print("{},{},", files[at(e.site)], p.sites[at(e.site)].line);
    else
      out.put(",,");
    out.print("{},{},{},{},{},{},{}\n", e.module < 0 ? "" : modules[at(e.module)], e.forward,
              e.allocated, e.freed, s.flops, s.bytes, inputs[at(e.signature)]);
  }
}

// ---- everything

namespace {

void json_tensors(const char* key, const std::vector<TensorInfo>& list, Output& out) {
  out.print(",\"{}\":[", key);
  for (size_t i = 0; i < list.size(); ++i)
    out.print("{}{{\"dtype\":\"{}\",\"sizes\":[{}]}}", i > 0 ? "," : "", list[i].dtype,
              fmt::join(list[i].sizes, ","));
  out.put("]");
}

template <class List, class Row>
void json_list(const char* key, const List& list, Output& out, Row row) {
  out.print(",\n\"{}\":[", key);
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.put(",\n");
    row(list[i]);
  }
  out.put("]");
}

void json_run(const RunInfo& r, Output& out) {
  out.print(
      "\"run\":{{\"program\":{},\"mode\":{},\"version\":{},\"started\":{},\"duration_ns\":{},"
      "\"exit_code\":{},\"signal\":{},\"complete\":{},\"dropped\":{},\"event_cost_ns\":{},"
      "\"scopes\":{},\"sample_cost_ns\":{},\"recorded_bytes\":{},\"sample_rate\":{},"
      "\"peak_memory_bytes\":{},\"memory_at_start_bytes\":{}}}",
      text::json_string(r.program), text::json_string(r.mode), text::json_string(r.version),
      text::json_string(r.started), r.duration, r.exit_code, r.signal, r.complete, r.dropped,
      r.event_cost, r.scopes, r.sample_cost, r.recorded_bytes, r.sample_rate, r.peak_memory,
      r.memory_at_start);
}

void json_machine(const MachineCeilings& m, Output& out) {
  out.print(
      ",\n\"machine\":{{\"cpu\":{},\"isa\":{},\"threads\":{},\"flops_one\":{},\"flops_all\":{},"
      "\"levels\":[",
      text::json_string(m.cpu), text::json_string(m.isa), m.threads, m.flops_one, m.flops_all);
  for (size_t i = 0; i < m.levels.size(); ++i) {
    const MemoryLevel& l = m.levels[i];
    out.print("{}{{\"name\":{},\"bytes\":{},\"read\":{},\"write\":{},\"copy\":{}}}",
              i > 0 ? "," : "", text::json_string(l.name), l.bytes, l.all.read, l.all.write,
              l.all.copy);
  }
  out.put("]}");
}

void json_descriptions(const Profile& p, Output& out) {
  json_list("threads", p.threads, out, [&](const Thread& t) {
    out.print("{{\"process\":{},\"id\":{},\"name\":{}}}", t.process, t.id,
              text::json_string(t.name));
  });
  json_list("signatures", p.signatures, out, [&](const Signature& s) {
    out.print(
        "{{\"kind\":\"{}\",\"name\":{},\"op_kind\":{},\"attributes\":{},\"flops\":{},"
        "\"contraction_flops\":{},\"bytes\":{},\"has_cost\":{}",
        name_of(s.kind), text::json_string(s.name), text::json_string(s.op_kind),
        text::json_string(s.attributes), s.flops, s.contraction_flops, s.bytes, s.has_cost);
    json_tensors("inputs", s.inputs, out);
    json_tensors("outputs", s.outputs, out);
    out.put("}");
  });
  json_list("sites", p.sites, out, [&](const Site& s) {
    out.print("{{\"file\":{},\"line\":{},\"function\":{},\"object\":{},\"python\":{}}}",
              text::json_string(s.file), s.line, text::json_string(s.function),
              text::json_string(s.object), s.python);
  });
  json_list("modules", p.modules, out, [&](const ModuleInfo& m) {
    out.print(
        "{{\"parent\":{},\"name\":{},\"path\":{},\"type\":{},\"parameters\":{},"
        "\"parameter_bytes\":{}}}",
        m.parent, text::json_string(m.name), text::json_string(m.path), text::json_string(m.type),
        m.parameters, m.parameter_bytes);
  });
  json_list("counters", p.counters, out, [&](const Counter& c) {
    out.print("{{\"name\":{},\"value\":{},\"missing\":{}}}", text::json_string(c.name), c.value,
              text::json_string(c.missing));
  });
}

}  // namespace

void export_json(const Profile& p, Output& out) {
  out.put("{\"format\":\"pellucid-profile\",\"version\":1,\n");
  json_run(p.run, out);
  json_machine(p.machine, out);
  json_descriptions(p, out);
  out.put(
      ",\n\"event_columns\":[\"begin_ns\",\"end_ns\",\"parent\",\"signature\",\"thread\",\"site\","
      "\"module\",\"forward\",\"stack\",\"step\",\"self_ns\",\"allocated\",\"freed\",\"phase\","
      "\"threw\",\"open\"]");
  json_list("events", p.events, out, [&](const Event& e) {
    out.print("[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]", e.begin, e.end, e.parent,
              e.signature, e.thread, e.site, e.module, e.forward, e.stack, e.step, e.self,
              e.allocated, e.freed, static_cast<int>(e.phase), e.threw, e.open);
  });
  out.put(
      ",\n\"allocation_columns\":[\"begin_ns\",\"end_ns\",\"bytes\",\"event\",\"freed_by\","
      "\"thread\",\"category\",\"before\",\"order\",\"freed_order\"]");
  json_list("allocations", p.allocations, out, [&](const Allocation& a) {
    out.print("[{},{},{},{},{},{},\"{}\",{},{},{}]", a.begin, a.end, a.bytes, a.event, a.freed_by,
              a.thread, name_of(a.category), a.before, a.order, a.freed_order);
  });
  json_list("frames", p.frames, out,
            [&](const Frame& f) { out.print("[{},{}]", f.parent, f.site); });
  json_list("samples", p.samples, out, [&](const Sample& s) {
    out.print("[{},{},{},{},{}]", s.at, s.thread, s.stack, s.signature, s.site);
  });
  json_list("uses", p.uses, out, [&](const BlockUse& u) {
    out.print("[{},{},\"{}\",{}]", u.event, u.allocation, name_of(u.kind),
              text::json_string(u.name));
  });
  json_list("sources", p.sources, out, [&](const SourceFile& s) {
    out.print("{{\"file\":{},\"hash\":{},\"text\":{}}}", text::json_string(s.file),
              text::json_string(s.hash), text::json_string(s.text));
  });
  json_list("counts", p.counts, out,
            [&](const CallCount& c) { out.print("[{},{},{}]", c.signature, c.site, c.calls); });
  out.put("}\n");
}

}  // namespace pellucid::profile
