// See view_data.h; and the columns of a profile.
#include "serve/view_data.h"

#include <fmt/format.h>

#include <cmath>

#include "base/escape.h"
#include "pellucid/machine.h"
#include "pellucid/profile_report.h"
#include "profile/averages.h"
#include "profile/index.h"
#include "serve/columns.h"
#include "serve/profile_header.h"

namespace pellucid::serve {
namespace {

using namespace profile;

// Hashes of inputs as small numbers; 0 stays 0: not known.
std::vector<int32_t> input_classes(const Profile& p) {
  Numbering number;
  std::vector<int32_t> classes;
  classes.reserve(p.events.size());
  for (const Event& e : p.events)
    classes.push_back(e.inputs == 0 ? 0 : 1 + number(e.signature, static_cast<int32_t>(e.inputs)));
  return classes;
}

std::vector<int64_t> stalled(const Profile& p) {
  std::vector<int64_t> sum(p.events.size());
  for (const Stall& s : p.stalls)
    if (s.event >= 0 && s.thread == p.events[at(s.event)].thread) sum[at(s.event)] += s.duration;
  return sum;
}

// Nanoseconds that one call takes at the ceiling, by signature; -1 where that is not known.
std::vector<int64_t> ceilings_of(const Profile& p) {
  const MachineRates rates = rates_of(p.machine);
  std::vector<int64_t> ceilings;
  for (const Signature& s : p.signatures)
    ceilings.push_back(s.kind == EventKind::Op && s.has_cost && rates.known()
                           ? std::llround(1e9 * rates.least(s.flops, s.bytes).least())
                           : -1);
  return ceilings;
}

void add_event_times(Columns& c, const Profile& p) {
  const auto add = [&](const char* name, Encoding encoding, const auto& value) {
    c.add(std::string("event.") + name, encoding, p.events, value);
  };
  add("begin", Encoding::Delta, [](const Event& e, size_t) { return e.begin; });
  add("end", Encoding::Delta, [](const Event& e, size_t) { return e.end; });
  add("self", Encoding::Zigzag, [](const Event& e, size_t) { return e.self; });
  const std::vector<int64_t> held = stalled(p), ceilings = ceilings_of(p);
  add("stalled", Encoding::Varint, [&](const Event&, size_t i) { return held[i]; });
  add("ceiling_ns", Encoding::Zigzag,
      [&](const Event& e, size_t) { return ceilings[at(e.signature)]; });
  const std::vector<int32_t> first = first_calls(p);
  add("first", Encoding::U8, [&](const Event& e, size_t i) {
    return first[at(e.signature)] == static_cast<int32_t>(i) ? 1 : 0;
  });
}

void add_event_places(Columns& c, const Profile& p) {
  const auto add = [&](const char* name, Encoding encoding, const auto& value) {
    c.add(std::string("event.") + name, encoding, p.events, value);
  };
  add("parent", Encoding::Delta, [](const Event& e, size_t) { return e.parent; });
  add("signature", Encoding::Varint, [](const Event& e, size_t) { return e.signature; });
  add("thread", Encoding::Varint, [](const Event& e, size_t) { return e.thread; });
  add("site", Encoding::Zigzag, [](const Event& e, size_t) { return e.site; });
  add("module", Encoding::Zigzag, [](const Event& e, size_t) { return e.module; });
  add("forward", Encoding::Delta, [](const Event& e, size_t) { return e.forward; });
  add("stack", Encoding::Delta, [](const Event& e, size_t) { return e.stack; });
  add("step", Encoding::Delta, [](const Event& e, size_t) { return e.step; });
  add("allocated", Encoding::Varint, [](const Event& e, size_t) { return e.allocated; });
  add("freed", Encoding::Varint, [](const Event& e, size_t) { return e.freed; });
  add("phase", Encoding::U8, [](const Event& e, size_t) { return static_cast<int>(e.phase); });
  add("flags", Encoding::U8, [](const Event& e, size_t) {
    return static_cast<int>(e.threw) | static_cast<int>(e.open) << 1;
  });
  const std::vector<int32_t> classes = input_classes(p);
  add("inputs", Encoding::Delta, [&](const Event&, size_t i) { return classes[i]; });
}

void add_allocations(Columns& c, const Profile& p) {
  const auto add = [&](const char* name, Encoding encoding, const auto& value) {
    c.add(std::string("allocation.") + name, encoding, p.allocations, value);
  };
  const auto of_event = [&](const Allocation& a, auto member) {
    return a.event < 0 ? -1 : p.events[at(a.event)].*member;
  };
  add("begin", Encoding::Delta, [](const Allocation& a, size_t) { return a.begin; });
  add("end", Encoding::Delta, [](const Allocation& a, size_t) { return a.end; });
  add("bytes", Encoding::Varint, [](const Allocation& a, size_t) { return a.bytes; });
  add("event", Encoding::Delta, [](const Allocation& a, size_t) { return a.event; });
  add("freed_by", Encoding::Delta, [](const Allocation& a, size_t) { return a.freed_by; });
  add("thread", Encoding::Varint, [](const Allocation& a, size_t) { return a.thread; });
  add("category", Encoding::U8,
      [](const Allocation& a, size_t) { return static_cast<int>(a.category); });
  add("before", Encoding::U8, [](const Allocation& a, size_t) { return a.before ? 1 : 0; });
  add("order", Encoding::Delta, [](const Allocation& a, size_t) { return a.order; });
  add("freed_order", Encoding::Delta, [](const Allocation& a, size_t) { return a.freed_order; });
  add("address", Encoding::Delta,
      [](const Allocation& a, size_t) { return static_cast<int64_t>(a.address); });
  add("site", Encoding::Zigzag,
      [&](const Allocation& a, size_t) { return of_event(a, &Event::site); });
  add("module", Encoding::Zigzag,
      [&](const Allocation& a, size_t) { return of_event(a, &Event::module); });
}

void add_stalls(Columns& c, const Profile& p) {
  const auto add = [&](const char* name, Encoding encoding, const auto& value) {
    c.add(std::string("stall.") + name, encoding, p.stalls, value);
  };
  add("kind", Encoding::U8, [](const Stall& s, size_t) { return static_cast<int>(s.kind); });
  add("begin", Encoding::Delta, [](const Stall& s, size_t) { return s.begin; });
  add("duration", Encoding::Varint, [](const Stall& s, size_t) { return s.duration; });
  add("thread", Encoding::Varint, [](const Stall& s, size_t) { return s.thread; });
  add("event", Encoding::Delta, [](const Stall& s, size_t) { return s.event; });
  add("count", Encoding::Varint, [](const Stall& s, size_t) { return s.count; });
}

void add_samples(Columns& c, const Profile& p) {
  const auto add = [&](const char* name, Encoding encoding, const auto& value) {
    c.add(std::string("sample.") + name, encoding, p.samples, value);
  };
  add("at", Encoding::Delta, [](const profile::Sample& s, size_t) { return s.at; });
  add("thread", Encoding::Varint, [](const profile::Sample& s, size_t) { return s.thread; });
  add("stack", Encoding::Delta, [](const profile::Sample& s, size_t) { return s.stack; });
  add("signature", Encoding::Zigzag, [](const profile::Sample& s, size_t) { return s.signature; });
  add("site", Encoding::Zigzag, [](const profile::Sample& s, size_t) { return s.site; });
  c.add("frame.parent", Encoding::Delta, p.frames, [](const Frame& f, size_t) { return f.parent; });
  c.add("frame.site", Encoding::Zigzag, p.frames, [](const Frame& f, size_t) { return f.site; });
}

void add_uses(Columns& c, const Profile& p) {
  const Strings strings = strings_of(p);
  c.add("use.event", Encoding::Delta, p.uses, [](const BlockUse& u, size_t) { return u.event; });
  c.add("use.allocation", Encoding::Delta, p.uses,
        [](const BlockUse& u, size_t) { return u.allocation; });
  c.add("use.kind", Encoding::U8, p.uses,
        [](const BlockUse& u, size_t) { return static_cast<int>(u.kind); });
  c.add("use.name", Encoding::Zigzag, strings.of_use, [](int32_t n, size_t) { return n; });
}

void add_steps(Columns& c, const Profile& p) {
  const std::vector<Span> spans = p.events.empty() ? std::vector<Span>() : Steps(p).spans;
  c.add("step.begin", Encoding::Delta, spans, [](const Span& s, size_t) { return s.begin; });
  c.add("step.end", Encoding::Delta, spans, [](const Span& s, size_t) { return s.end; });
}

}  // namespace

std::string view_data(const Profile& p, std::string_view name, Sources sources) {
  validate(p);
  Columns columns;
  add_event_times(columns, p);
  add_event_places(columns, p);
  add_allocations(columns, p);
  add_stalls(columns, p);
  add_samples(columns, p);
  add_steps(columns, p);
  add_uses(columns, p);
  return container(profile_header(p, name, sources), columns);
}

std::string compare_data(std::span<const Profile> first, std::span<const Profile> second,
                         std::string_view name) {
  std::string groups;
  for (const char* by : {"op", "line", "module", "memory"})
    groups += fmt::format("{}\"{}\": {}", groups.empty() ? "" : ", ", by,
                          to_json(diff(first, second, {.by = by})));
  return container(fmt::format("{{\"kind\": \"compare\", \"name\": {}, \"compare\": {{{}}}}}",
                               text::json_string(name), groups),
                   Columns());
}

}  // namespace pellucid::serve
