// The view data of a profile: columns are the profile's, tables are those of the reports, and what
// is shown as parts sums to its whole.
#include "serve/view_data.h"

#include <doctest/doctest.h>

#include <cmath>

#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "profile/sample_profile.h"
#include "serve/decode.h"

using namespace pellucid;
using namespace pellucid::profile;
using test::ViewData;

namespace {

std::string of(const Profile& p) { return serve::view_data(p, "p.pellucid"); }

template <class Rows, class Value>
std::vector<int64_t> values(const Rows& rows, const Value& value) {
  std::vector<int64_t> out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.push_back(static_cast<int64_t>(value(row)));
  return out;
}

void check_columns(const Profile& p, const ViewData& data) {
  CHECK(data.column("event.begin") == values(p.events, [](auto& e) { return e.begin; }));
  CHECK(data.column("event.end") == values(p.events, [](auto& e) { return e.end; }));
  CHECK(data.column("event.self") == values(p.events, [](auto& e) { return e.self; }));
  CHECK(data.column("event.parent") == values(p.events, [](auto& e) { return e.parent; }));
  CHECK(data.column("event.signature") == values(p.events, [](auto& e) { return e.signature; }));
  CHECK(data.column("event.thread") == values(p.events, [](auto& e) { return e.thread; }));
  CHECK(data.column("event.site") == values(p.events, [](auto& e) { return e.site; }));
  CHECK(data.column("event.module") == values(p.events, [](auto& e) { return e.module; }));
  CHECK(data.column("event.forward") == values(p.events, [](auto& e) { return e.forward; }));
  CHECK(data.column("event.step") == values(p.events, [](auto& e) { return e.step; }));
  CHECK(data.column("event.phase") ==
        values(p.events, [](auto& e) { return static_cast<int>(e.phase); }));
  CHECK(data.column("event.flags") ==
        values(p.events, [](auto& e) { return (e.threw ? 1 : 0) + (e.open ? 2 : 0); }));
  CHECK(data.column("event.allocated") == values(p.events, [](auto& e) { return e.allocated; }));
  CHECK(data.column("allocation.bytes") == values(p.allocations, [](auto& a) { return a.bytes; }));
  CHECK(data.column("allocation.end") == values(p.allocations, [](auto& a) { return a.end; }));
  CHECK(data.column("allocation.freed_by") ==
        values(p.allocations, [](auto& a) { return a.freed_by; }));
  CHECK(data.column("stall.duration") == values(p.stalls, [](auto& s) { return s.duration; }));
  CHECK(data.column("sample.stack") == values(p.samples, [](auto& s) { return s.stack; }));
  CHECK(data.column("frame.parent") == values(p.frames, [](auto& f) { return f.parent; }));
  for (const auto& [name, column] : data.header.at("columns").items()) {
    const std::string table = name.substr(0, name.find('.'));
    const size_t rows = column.at("rows");
    if (table == "event") CHECK(rows == p.events.size());
    if (table == "allocation") CHECK(rows == p.allocations.size());
  }
}

void check_sums(const Profile& p, const ViewData& data) {
  double parts = 0, shares = 0;
  for (const auto& part : data.header.at("parts")) {
    parts += part.at("ns").get<double>();
    shares += part.at("share").get<double>();
  }
  const double whole = data.header.at("totals").at("total_ns");
  if (!p.events.empty() && whole > 0) {
    CHECK(std::fabs(parts - whole) <= 1e-9 * whole);
    CHECK(std::fabs(shares - 1) <= 1e-9);
  }
  if (data.header.at("totals").contains("at_best_ns")) {
    const double best = data.header.at("totals").at("at_best_ns");
    CHECK(best >= 0);
    CHECK(best <= whole);
  }
}

void check_tables(const Profile& p, const ViewData& data) {
  const auto same = [&](const char* key, const char* name, const char* by) {
    CHECK_MESSAGE(data.header.at("tables").at(key) ==
                      nlohmann::json::parse(to_json(report(p, name, {.by = by, .limit = 0}))),
                  key);
  };
  same("overview", "overview", "");
  if (p.events.empty()) return;
  for (const char* name : {"torch", "cprofile", "modules", "summary", "roofline", "memory", "peak",
                           "timeline", "steps", "advice"})
    same(name, name, "");
  same("torch-line", "torch", "line");
  same("roofline-shape", "roofline", "shape");
}

void check_all(const Profile& p) {
  const std::string bytes = of(p);
  const ViewData data(bytes);
  check_columns(p, data);
  check_sums(p, data);
  check_tables(p, data);
}

}  // namespace

TEST_CASE("view data: what a profile has") {
  const Profile p = test::two_layer_profile();
  check_all(p);
  const std::string bytes = of(p);
  const ViewData data(bytes);
  const auto& h = data.header;
  CHECK(h.at("kind") == "profile");
  CHECK(h.at("name") == "p.pellucid");
  CHECK(h.at("run").at("program") == p.run.program);
  CHECK(h.at("totals").at("peak_bytes") == p.run.peak_memory);
  CHECK(h.at("sites").size() == p.sites.size());
  CHECK(h.at("sites").at(0).at("own") == true);
  CHECK(h.at("modules").at(1).at("path") == "linear1");
  CHECK(h.at("machine").at("flops") == 100e9);
  CHECK(h.at("sentence").get<std::string>().starts_with("two_layer.cpp:24(linear) takes"));
  const auto family = [&](size_t i) { return h.at("signatures").at(i).at("family"); };
  CHECK(family(0) == "contraction");
  CHECK(family(2) == "pointwise");
  CHECK(family(3) == "movement");
  CHECK(family(5) == "optimizer");  // a pointwise op that only the optimiser calls
  CHECK(h.at("steps").at("count") == data.column("step.begin").size());
}

TEST_CASE("view data: ceilings, first calls and stalls of events") {
  Profile p = test::two_layer_profile();
  p.stalls = {{.kind = Stall::Kind::Waiting, .begin = 10, .duration = 30, .thread = 0, .event = 5},
              {.kind = Stall::Kind::PageFault, .begin = 50, .duration = 7, .thread = 0, .event = 5},
              {.kind = Stall::Kind::Waiting, .begin = 60, .duration = 9, .thread = 1, .event = 5}};
  const std::string bytes = of(p);
  const ViewData data(bytes);
  const auto stalled = data.column("event.stalled");
  const auto thread = data.column("event.thread");
  CHECK(stalled.at(5) == (thread.at(5) == 0 ? 37 : 9));
  CHECK(stalled.at(6) == 0);
  const auto ceiling = data.column("event.ceiling_ns"), signature = data.column("event.signature"),
             first = data.column("event.first");
  std::vector<int> firsts(p.signatures.size());
  for (size_t i = 0; i < signature.size(); ++i) {
    firsts.at(static_cast<size_t>(signature[i])) += static_cast<int>(first[i]);
    const Signature& s = p.signatures[static_cast<size_t>(signature[i])];
    if (s.kind != EventKind::Op) CHECK(ceiling[i] == -1);
    if (s.name == "matmul") CHECK(ceiling[i] == 128'000);  // 12.8 MFLOPs at 100 GFLOP/s
  }
  for (size_t s = 0; s < firsts.size(); ++s) {
    const bool called =
        std::find(signature.begin(), signature.end(), static_cast<int64_t>(s)) != signature.end();
    CHECK(firsts[s] == (called ? 1 : 0));
  }
}

TEST_CASE("view data: calls with the same inputs share a class") {
  Profile p = test::two_layer_profile();
  p.events[1].inputs = 0xfffffff0, p.events[2].inputs = 0;
  for (size_t i = 3; i < 6; ++i) p.events[i].inputs = 17;
  const std::string bytes = of(p);
  const auto inputs = ViewData(bytes).column("event.inputs");
  CHECK(inputs[0] == 0);
  CHECK(inputs[1] > 0);
  CHECK(inputs[2] == 0);
  for (size_t i = 3; i < 6; ++i)
    for (size_t j = 3; j < 6; ++j)
      CHECK((inputs[i] == inputs[j]) == (p.events[i].signature == p.events[j].signature));
}

TEST_CASE("view data: random, empty, counted and sampled profiles") {
  for (uint32_t seed = 0; seed < 20; ++seed) check_all(test::random_profile(seed, 200));
  check_all(test::random_profile(3, 1));
  Profile empty;
  check_all(empty);
  {
    const std::string bytes = of(empty);
    CHECK(ViewData(bytes).header.at("missing").contains("events"));
  }
  Profile counted;
  counted.run.mode = "count";
  counted.signatures = {{.name = "add"}};
  counted.counts = {{.signature = 0, .calls = 12}};
  const std::string counts = of(counted);
  CHECK(ViewData(counts).header.at("tables").contains("counts"));
  Profile sampled;
  sampled.run.mode = "sample";
  sampled.run.program = "./p --x";
  sampled.threads = {{.process = 1, .id = 2, .name = "main"}};
  sampled.sites = {{.file = "/home/me/a.cpp", .line = 3, .function = "f"},
                   {.file = "/usr/include/c++/12/vector", .line = 9, .function = "g"}};
  sampled.frames = {{.site = 0}, {.parent = 0, .site = 1}};
  sampled.samples = {{.at = 5, .thread = 0, .stack = 1}};
  const std::string samples = of(sampled);
  const ViewData data(samples);
  CHECK(data.header.at("tables").contains("samples"));
  CHECK(data.header.at("sites").at(0).at("own") == true);
  CHECK(data.header.at("sites").at(1).at("own") == false);
  CHECK(data.header.at("missing").at("events").at("command") == "pellucid profile -- ./p --x");
  CHECK(!data.header.at("missing").contains("samples"));
}

TEST_CASE("view data: names that are no UTF-8, control characters, markup, 10 kB") {
  Profile p = test::two_layer_profile();
  p.run.program = "\xff\xfe</script>\x01";
  p.signatures[0].name = std::string(10'000, '<') + "\xc3";
  p.sites[0].function = "f\x1b[31m\n";
  p.modules[1].name = p.modules[1].path = "\"'\\";
  const std::string bytes = of(p);
  const ViewData data(bytes);  // throws for JSON that is not valid
  CHECK(data.header.at("run").at("program") == "\ufffd\ufffd</script>\x01");
  CHECK(data.header.at("sites").at(0).at("function") == "f\x1b[31m\n");
}

TEST_CASE("view data: a damaged profile is refused") {
  Profile p = test::two_layer_profile();
  p.events[3].signature = 1'000'000;
  CHECK_THROWS_AS(of(p), IoError);
}
