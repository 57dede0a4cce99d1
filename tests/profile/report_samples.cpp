// Samples: each op and each function has one row, threads of the pool belong to the op of their
// region, and the headline names a line of the program.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/parallel.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"
#include "sample_profile.h"
#include "threads.h"

using namespace pellucid;
using namespace pellucid::profile;
using test::ProfileBuilder;

namespace {

std::vector<std::string> names_in(const ReportTable& t, size_t c) {
  std::vector<std::string> out;
  for (const auto& row : t.rows) out.push_back(row[c].text);
  return out;
}

}  // namespace

TEST_CASE("samples: an op with several sizes is one row, and functions without a name are apart") {
  ProfileBuilder b;
  const int32_t small = b.signature({.name = "convolution", .inputs = {{kFloat32, {1}}}});
  const int32_t large = b.signature({.name = "convolution", .inputs = {{kFloat32, {9}}}});
  const int32_t user = b.site("train.cpp", 12);
  const auto nameless = [&](const std::string& function) {
    b.p.sites.push_back({.file = "", .function = function, .object = "/usr/lib/libgomp.so.1"});
    return static_cast<int32_t>(b.p.sites.size()) - 1;
  };
  const int32_t one = nameless("libgomp.so.1+0x1000"), two = nameless("libgomp.so.1+0x2000");
  b.p.frames = {{-1, user}, {0, one}, {0, two}};
  b.p.samples = {{.at = 1, .stack = 1, .signature = small, .site = user},
                 {.at = 2, .stack = 2, .signature = large, .site = user},
                 {.at = 3, .stack = 2, .signature = large, .site = user},
                 {.at = 4, .stack = 1}};
  b.p.run.mode = "sample";
  const auto ops = report(b.p, "samples", {.by = "op"})[0];
  CHECK(names_in(ops, 4) == std::vector<std::string>{"convolution", "(outside ops)"});
  CHECK(ops.rows[0][0].number == 3);
  const auto functions = report(b.p, "samples", {.by = "function"})[0];
  CHECK(functions.rows.size() == 3);
  CHECK(functions.rows[0][0].number == 2);
  CHECK(functions.rows[1][0].number == 2);
  const std::string overview = report(b.p, "overview")[0].heading;
  CHECK(overview.find("train.cpp:12(main) holds 100 % of the samples") != std::string::npos);
}

TEST_CASE("samples: a headline without any line of the program says so") {
  ProfileBuilder b;
  b.p.sites.push_back({.function = "memcpy", .object = "libc.so.6"});
  b.p.frames = {{-1, 0}};
  b.p.samples = {{.at = 1, .stack = 0}};
  b.p.run.mode = "sample";
  CHECK(report(b.p, "overview")[0].heading.find("no sample has a line of the program") !=
        std::string::npos);
}

TEST_CASE("samples: threads of the pool are charged to the op of their region") {
  const Threads two(2);
  RecorderOptions options;
  options.mode = Mode::Sample;
  options.sample_rate = 1000;
  ProfilerSession session("", options);
  const NoGradGuard off;
  const Tensor a = randn({768, 768}), image = randn({8, 32, 32, 32}), w = randn({32, 32, 3, 3});
  for (int i = 0; i < 60; ++i) {
    a.mm(a);
    conv2d(image, w);
  }
  const Profile p = session.stop();
  REQUIRE(p.samples.size() > 20);
  const auto caller = static_cast<int32_t>(syscall(SYS_gettid));
  int64_t others = 0, charged = 0, outside = 0;
  for (const profile::Sample& s : p.samples) {
    if (p.threads[static_cast<size_t>(s.thread)].id == caller) continue;
    ++others;
    if (s.signature < 0)
      ++outside;
    else if (p.signatures[static_cast<size_t>(s.signature)].kind == EventKind::Op) {
      ++charged;
      CHECK(s.site >= 0);
    }
  }
  CHECK(outside == 0);  // at work for an op, or a thread of the pool that has nothing to do
  if (others > 20) CHECK(charged > 0);
  for (const char* by : {"op", "function", "line"}) {
    const auto t = report(p, "samples", {.by = by, .limit = 0})[0];
    std::vector<std::string> names = names_in(t, 4);
    double sum = 0;
    for (const auto& row : t.rows) sum += row[0].number;
    CHECK(sum == static_cast<double>(p.samples.size()));
    if (std::string_view(by) != "op") continue;
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }
}
