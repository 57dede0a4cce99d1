// The server side of `bench/run`: a line in, a line out.
//   list                  -> a JSON list of case names
//   open NAME             -> makes the case and runs it once; "ok"
//   write NAME<TAB>FOLDER -> writes its inputs and results into FOLDER (call_file.h); "ok"
//   run NAME<TAB>N        -> runs it N times; nanoseconds for all
//   close                 -> drops all that is open; "ok"
// An error is a line that begins with "error: ".
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "../tests/parity/call_file.h"
#include "cases.h"

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

using Open = std::map<std::string, Work>;

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
  if (verb == "open") {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == name; });
    PELLUCID_CHECK(found != cases.end(), ValueError, "there is no case '{}'.", name);
    open[name] = found->make();
    open[name].once();
    return "ok";
  }
  const auto found = open.find(name);
  PELLUCID_CHECK((verb == "run" || verb == "write") && found != open.end(), ValueError,
                 "'{}' cannot be done.", request);
  const Work& work = found->second;
  if (verb == "write") {
    write_case(work, last);
    return "ok";
  }
  const int64_t count = std::stoll(last);
  const auto begun = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) work.once();
  return std::to_string(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count());
}

}  // namespace

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
