// speedscope's file format: for each thread the opening and closing of functions in order, or the
// stacks that the sampler saw.
#include <algorithm>

#include "base/escape.h"
#include "profile/exports.h"
#include "profile/functions.h"

namespace pellucid::profile {
namespace {

void put_frame(Output& out, bool first, std::string_view name, const Profile& p, int32_t site) {
  out.print("{}{{\"name\":{}", first ? "" : ",\n", text::json_string(name));
  if (site >= 0 && !p.sites[at(site)].file.empty())
    out.print(",\"file\":{},\"line\":{}", text::json_string(p.sites[at(site)].file),
              std::max(0, p.sites[at(site)].line));
  out.put("}");
}

// Ends never lie outside what encloses them, and times never fall: speedscope refuses both.
void put_thread(const Profile& p, const Functions& functions, const std::vector<int32_t>& events,
                Output& out) {
  struct Open {
    int32_t event;
    int64_t end;
  };
  std::vector<Open> stack;
  int64_t now = 0;
  bool first = true;
  const auto put = [&](char type, int32_t event, int64_t time) {
    now = std::max(now, time);
    out.print("{}{{\"type\":\"{}\",\"frame\":{},\"at\":{}}}", first ? "" : ",", type,
              functions.group.key[at(event)], now);
    first = false;
  };
  const auto close_until = [&](int32_t parent) {
    while (!stack.empty() && stack.back().event != parent) {
      put('C', stack.back().event, stack.back().end);
      stack.pop_back();
    }
  };
  for (const int32_t i : events) {
    const Event& e = p.events[at(i)];
    close_until(e.parent);
    const int64_t latest = stack.empty() ? std::max(e.end, now) : stack.back().end;
    put('O', i, std::min(std::max(e.begin, now), latest));
    stack.push_back({i, std::clamp(e.end, now, std::max(now, latest))});
  }
  close_until(-1);
  out.print("],\"startValue\":0,\"endValue\":{}}}", std::max(now, p.run.duration));
}

void put_traced(const Profile& p, Output& out) {
  const FunctionStats stats(p);
  for (int32_t f = 0; f < stats.functions.number.size(); ++f)
    put_frame(out, f == 0, stats.name(f), p, stats.site(f));
  out.put("]},\n\"profiles\":[");
  const auto threads = events_by_thread(p);
  bool first = true;
  for (size_t t = 0; t < threads.size(); ++t) {
    if (threads[t].empty()) continue;
    out.print("{}{{\"type\":\"evented\",\"name\":{},\"unit\":\"nanoseconds\",\"events\":[",
              first ? "" : ",\n",
              text::json_string(fmt::format("{} {}", p.threads[t].name, p.threads[t].id)));
    put_thread(p, stats.functions, threads[t], out);
    first = false;
  }
}

void put_sampled(const Profile& p, Output& out) {
  for (size_t i = 0; i < p.sites.size(); ++i)
    put_frame(out, i == 0, p.sites[i].function.empty() ? "(unknown)" : p.sites[i].function, p,
              static_cast<int32_t>(i));
  out.put(
      "]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":\"samples\",\"unit\":\"none\",\"samples\":"
      "[");
  int64_t count = 0;
  for (const Sample& s : p.samples) {
    std::vector<int32_t> path;
    for (int32_t f = s.stack; f >= 0; f = p.frames[at(f)].parent)
      if (p.frames[at(f)].site >= 0) path.push_back(p.frames[at(f)].site);
    out.put(count++ > 0 ? ",[" : "[");
    for (size_t i = path.size(); i-- > 0;) out.print("{}{}", path[i], i > 0 ? "," : "");
    out.put("]");
  }
  out.put("],\"weights\":[");
  for (int64_t i = 0; i < count; ++i) out.put(i > 0 ? ",1" : "1");
  out.print("],\"startValue\":0,\"endValue\":{}}}", count);
}

}  // namespace

void export_speedscope(const Profile& p, Output& out) {
  out.print(
      "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":{},"
      "\"exporter\":{},\"activeProfileIndex\":0,\n\"shared\":{{\"frames\":[",
      text::json_string(p.run.program), text::json_string("pellucid " + p.run.version));
  if (p.events.empty() && !p.samples.empty())
    put_sampled(p, out);
  else
    put_traced(p, out);
  out.put("]}\n");
}

}  // namespace pellucid::profile
