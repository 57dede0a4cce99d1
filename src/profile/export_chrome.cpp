// Chrome's trace format, with the categories and arguments of torch.profiler, so that Perfetto,
// chrome://tracing and TensorBoard's plugin read it: a complete event for each op and scope, arrows
// from forward to backward, and a counter of memory.
#include <array>

#include "base/escape.h"
#include "profile/exports.h"
#include "profile/index.h"
#include "profile/memory_use.h"

namespace pellucid::profile {
namespace {

// Chrome's unit; three decimals keep the nanoseconds.
std::string microseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

// What TensorBoard's plugin counts as operators, and what it shows as ranges.
std::string_view category(EventKind kind) {
  const bool op =
      kind == EventKind::Op || kind == EventKind::Composite || kind == EventKind::Backward;
  return op ? "cpu_op" : "user_annotation";
}

// torch's names of element types, as its traces have them.
std::string_view type_name(DType t) {
  switch (t) {
    case kFloat32:
      return "float";
    case kFloat64:
      return "double";
    case kFloat16:
      return "c10::Half";
    case kBFloat16:
      return "c10::BFloat16";
    case kInt64:
      return "long int";
    case kInt32:
      return "int";
    case kInt16:
      return "short int";
    case kInt8:
      return "signed char";
    case kUInt8:
      return "unsigned char";
    default:
      return "bool";
  }
}

// The arguments that all events of a signature share.
std::string shared_arguments(const Signature& s) {
  if (s.kind != EventKind::Op && s.kind != EventKind::Composite) return "";
  std::string types;
  for (const TensorInfo& t : s.inputs)
    types += fmt::format("{}\"{}\"", types.empty() ? "" : ",", type_name(t.dtype));
  std::string out =
      fmt::format(",\"Input Dims\":{},\"Input type\":[{}]", json_sizes(s.inputs), types);
  if (s.has_cost && s.kind == EventKind::Op)
    out += fmt::format(",\"flops\":{},\"bytes\":{}", s.flops, s.bytes);
  if (!s.attributes.empty())
    out += fmt::format(",\"attributes\":{}", text::json_string(s.attributes));
  return out;
}

void put_threads(const Profile& p, Output& out) {
  out.print(
      "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":{}}}}}",
      p.threads.empty() ? 0 : p.threads[0].process, text::json_string(p.run.program));
  for (const Thread& t : p.threads)
    out.print(
        ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}"
        "}",
        t.process, t.id, text::json_string(t.name.empty() ? "thread" : t.name));
}

void put_events(const Profile& p, Output& out) {
  const std::vector<std::string> names = json_names(p);
  std::vector<std::string> shared, lines, modules;
  for (const Signature& s : p.signatures) shared.push_back(shared_arguments(s));
  for (size_t i = 0; i < p.sites.size(); ++i)
    lines.push_back(fmt::format(",\"Call stack\":{}",
                                text::json_string(place_of(p, static_cast<int32_t>(i), true))));
  for (const ModuleInfo& m : p.modules)
    modules.push_back(fmt::format(",\"Module Hierarchy\":{}",
                                  text::json_string(m.path.empty() ? m.type : m.path)));
  // A node of the tape and the op that made it have one sequence number: the op's.
  std::vector<uint8_t> has_backward(p.events.size());
  for (const Event& e : p.events)
    if (e.forward >= 0) has_backward[at(e.forward)] = 1;
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const Signature& s = p.signatures[at(e.signature)];
    const Thread& t = p.threads[at(e.thread)];
    out.print(",\n{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":", category(s.kind));
    if (s.kind == EventKind::Step)
      out.print("\"ProfilerStep#{}\"", e.step < 0 ? 0 : e.step);
    else
      out.put(names[at(e.signature)]);
    out.print(",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"External id\":{}",
              t.process, t.id, microseconds(e.begin), microseconds(e.end - e.begin), i + 1);
    if (e.forward >= 0)
      out.print(",\"Sequence number\":{},\"Fwd thread id\":{}", e.forward,
                p.threads[at(p.events[at(e.forward)].thread)].id);
    else if (has_backward[i] != 0)
      out.print(",\"Sequence number\":{},\"Fwd thread id\":0", i);
    out.put(shared[at(e.signature)]);
    if (e.site >= 0) out.put(lines[at(e.site)]);
    if (e.module >= 0) out.put(modules[at(e.module)]);
    if (e.threw) out.put(",\"threw\":true");
    if (e.open) out.put(",\"unfinished\":true");
    out.put("}}");
  }
}

// Arrows from an op to the scope of its backward.
void put_arrows(const Profile& p, Output& out) {
  for (size_t i = 0; i < p.events.size(); ++i) {
    if (p.events[i].forward < 0) continue;
    const Event &to = p.events[i], &from = p.events[at(to.forward)];
    const auto end = [&](char phase, const Event& e, const char* more) {
      out.print(
          ",\n{{\"ph\":\"{}\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\",\"id\":{},\"pid\":{},"
          "\"tid\":{},\"ts\":{}{}}}",
          phase, i, p.threads[at(e.thread)].process, p.threads[at(e.thread)].id,
          microseconds(e.begin), more);
    };
    end('s', from, "");
    end('f', to, ",\"bp\":\"e\"");
  }
}

void put_memory(const Profile& p, Output& out) {
  std::array<int64_t, kMemoryCategoryCount> now{};
  const int32_t process = p.threads.empty() ? 0 : p.threads[0].process;
  for (const MemoryChange& c : memory_changes(p)) {
    now[static_cast<size_t>(p.allocations[c.allocation].category)] += c.bytes;
    out.print(",\n{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":{},\"args\":{{", process,
              microseconds(c.time));
    for (int i = 0; i < kMemoryCategoryCount; ++i)
      out.print("{}\"{}\":{}", i > 0 ? "," : "", name_of(static_cast<MemoryCategory>(i)),
                now[static_cast<size_t>(i)]);
    out.put("}}");
  }
}

}  // namespace

void export_chrome(const Profile& p, Output& out) {
  out.print(
      "{{\"schemaVersion\":1,\"deviceProperties\":[],\"record_shapes\":1,\"with_flops\":1,"
      "\"profile_memory\":1,\"displayTimeUnit\":\"ms\",\"otherData\":{{\"program\":{}}},"
      "\"traceEvents\":[\n",
      text::json_string(p.run.program));
  put_threads(p, out);
  put_events(p, out);
  put_arrows(p, out);
  put_memory(p, out);
  out.put("\n]}\n");
}

}  // namespace pellucid::profile
