// The server side of `bench/run`: a line in, a line out.
//   list                  -> a JSON list of case names
//   open NAME             -> makes the case and runs it once; "ok"
//   write NAME<TAB>FOLDER -> writes its inputs and results into FOLDER (call_file.h); "ok"
//   run NAME<TAB>N        -> runs it N times; nanoseconds for all
//   memory NAME           -> runs it twice; the most bytes of its tensors at any moment of the
//   second record MODE           -> starts a profile (trace, count or sample); "ok" stop -> ends
//   it; the bytes that were recorded close                 -> drops all that is open; "ok"
// An error is a line that begins with "error: ".
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>

#include "../tests/parity/call_file.h"
#include "cases.h"
#include "pellucid/compile.h"
#include "pellucid/profiler.h"

namespace pellucid::bench {
namespace {

void write_case(const Work& work, const std::string& folder) {
  test::CallWriter w(folder);
  test::json line = work.sample ? test::describe_call(w, *work.sample) : test::json::object();
  line["inputs"] = test::json::array();
  line["results"] = test::json::array();
  line["steps"] = work.steps;
  if (work.sample)
    line["random"] = work.sample->op->kind == OpKind::Random || work.sample->op->random_count;
  for (const Tensor& t : work.inputs) line["inputs"].push_back(w.tensor(t.detach()));
  if (work.results)
    for (const Tensor& t : work.results())
      if (t.defined()) line["results"].push_back(w.contiguous(t));
  w.line(line);
  PELLUCID_CHECK(w.finish(), IoError, "the case could not be written into {}.", folder);
}

/// In the way that was asked for; training steps see to that themselves.
Work made(const Case& c) {
  manual_seed(0);  // the same inputs in the process of each way
  Work work = c.make();
  if (way() == Way::Compiled && !c.name.starts_with("train/"))
    work.once = compile(std::move(work.once));
  return work;
}

struct Opened {
  Work work;
  int64_t allocated_before;  ///< bytes that lived when the case was opened
};
using Open = std::map<std::string, Opened>;

int64_t nanoseconds_of(const Work& work, int64_t count) {
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds total{0};
  const auto begun = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    if (work.before) work.before();
    const auto started = work.before ? Clock::now() : begun;
    work.once();
    if (work.before) total += Clock::now() - started;
  }
  return (work.before ? total : std::chrono::nanoseconds(Clock::now() - begun)).count();
}

/// What was made for the other side does not count.
int64_t peak_bytes(Opened& opened) {
  opened.work.inputs.clear();
  opened.work.once();
  reset_peak_memory_stats();
  opened.work.once();
  return memory_stats().peak - opened.allocated_before;
}

std::unique_ptr<ProfilerSession> session;

std::string answer(const std::string& request, const Cases& cases, Open& open) {
  const size_t space = std::min(request.find(' '), request.size()),
               tab = std::min(request.find('\t'), request.size());
  const std::string verb = request.substr(0, space);
  const std::string name = space < tab ? request.substr(space + 1, tab - space - 1) : "";
  const std::string last = tab < request.size() ? request.substr(tab + 1) : "";
  if (verb == "list") {
    test::json names = test::json::array();
    for (const Case& c : cases) names.push_back(c.name);
    return names.dump();
  }
  if (verb == "close") {
    open.clear();
    return "ok";
  }
  if (verb == "record") {
    profile::RecorderOptions o;
    o.mode = name == "count"    ? profile::Mode::Count
             : name == "sample" ? profile::Mode::Sample
                                : profile::Mode::Trace;
    session = std::make_unique<ProfilerSession>("", o);
    return "ok";
  }
  if (verb == "stop" && session) {
    const profile::Profile p = session->stop();
    session.reset();
    return std::to_string(p.run.recorded_bytes);
  }
  if (verb == "open") {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
    PELLUCID_CHECK(found != cases.end(), ValueError, "there is no case '{}'.", name);
    const int64_t allocated = memory_stats().allocated;
    Opened& opened = open[name] = {made(*found), allocated};
    if (opened.work.before) opened.work.before();
    opened.work.once();
    return "ok";
  }
  const auto found = open.find(name);
  PELLUCID_CHECK((verb == "run" || verb == "write" || verb == "memory") && found != open.end(),
                 ValueError, "'{}' cannot be done.", request);
  if (verb == "memory") return std::to_string(peak_bytes(found->second));
  const Work& work = found->second.work;
  if (verb == "write") {
    write_case(work, last);
    return "ok";
  }
  return std::to_string(nanoseconds_of(work, std::stoll(last)));
}

}  // namespace

Way way() {
  static const Way chosen = [] {
    const char* const name = std::getenv("BENCH_WAY");
    const std::string_view text = name ? name : "eager";
    if (text == "eager") return Way::Eager;
    if (text == "compiled") return Way::Compiled;
    PELLUCID_CHECK(text == "sealed", ValueError,
                   "BENCH_WAY is eager, compiled or sealed, not '{}'.", text);
    return Way::Sealed;
  }();
  return chosen;
}

int serve() {
  const Cases cases = all_cases();
  Open open;
  for (std::string line; std::getline(std::cin, line);) {
    std::string out;
    try {
      out = answer(line, cases, open);
    } catch (const std::exception& e) {
      out = std::string("error: ") + e.what();
      std::replace(out.begin(), out.end(), '\n', ' ');
    }
    std::cout << out << std::endl;
  }
  return 0;
}

}  // namespace pellucid::bench
