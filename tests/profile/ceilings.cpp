// The machine's ceilings: that the loops do their work at every ISA level, and that the file is
// used, refused or replaced as it should be. No rate is compared with a number.
#include "profile/ceilings.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "temporary.h"

using namespace pellucid;
using namespace pellucid::profile;

namespace {

MachineCeilings quick() {
  return measure_ceilings({.seconds = 1e-4, .runs = 1, .most_bytes = 1 << 20});
}

const std::string kFile = "deep/er/ceilings.json";

}  // namespace

TEST_CASE("ceilings: the loops read, write and copy all bytes, at every level") {
  constexpr size_t kBytes = 4096;
  for (const Isa level : available_isas()) {
    INFO(isa_name(level));
    const CeilingLoops& loops = ceiling_loops(level);
    alignas(64) static uint64_t from[kBytes / 8], to[kBytes / 8];
    uint64_t expected = 0;
    for (size_t i = 0; i < kBytes / 8; ++i) {
      from[i] = (i + 1) * 0x9e3779b97f4a7c15u;
      to[i] = 0;
      expected ^= from[i];
    }
    CHECK(loops.read(from, kBytes, 1) == expected);
    CHECK(loops.read(from, kBytes, 2) == 0);
    loops.copy(to, from, kBytes, 1);
    CHECK(std::equal(from, from + kBytes / 8, to));
    loops.write(to, kBytes, 3);
    for (const uint64_t v : to) REQUIRE(v == 2);  // the number of the last pass
    // x -> 0.999 x + 0.001 tends to 1 in each of the 12 chains.
    CHECK(loops.multiply_add(100'000) == doctest::Approx(12).epsilon(0.01));
    CHECK(loops.flops_per_pass >= 96);
  }
}

TEST_CASE("ceilings: a measurement fills every figure and tells its progress") {
  std::vector<double> done;
  const MachineCeilings c =
      measure_ceilings({.seconds = 1e-4, .runs = 1, .most_bytes = 1 << 20},
                       [&](std::string_view, double d) { done.push_back(d); });
  CHECK(c.flops_one > 0);
  CHECK(c.flops_all > 0);
  REQUIRE(c.levels.size() >= 4);
  for (const MemoryLevel& l : c.levels) {
    INFO(l.name);
    for (const double r :
         {l.one.read, l.one.write, l.one.copy, l.all.read, l.all.write, l.all.copy})
      CHECK((std::isfinite(r) && r > 0));
  }
  CHECK(done.front() == 0);
  CHECK(done.back() == 1);
}

TEST_CASE("ceilings: what was written is read; anything else is measured again") {
  const test::TemporaryFolder folder;
  CHECK_FALSE(load_ceilings(folder / kFile));
  MachineCeilings c = quick();
  REQUIRE(save_ceilings(folder / kFile, c));
  const auto again = load_ceilings(folder / kFile);
  REQUIRE(again);
  CHECK(again->from_cache);
  CHECK(again->flops_one == c.flops_one);
  CHECK(again->levels.size() == c.levels.size());
  CHECK(again->levels.back().all.copy == c.levels.back().all.copy);

  const std::string good = test::read_bytes(folder / kFile);
  const std::vector<std::string> damaged = {
      "", "{", "null", "[1, 2]", good.substr(0, good.size() / 2), "{\"cpu\": 3}", good.substr(1)};
  for (const std::string& text : damaged) {
    std::ofstream(folder / kFile) << text;
    CHECK_FALSE(load_ceilings(folder / kFile));
  }
  c.threads += 1;  // another number of threads has other ceilings
  REQUIRE(save_ceilings(folder / kFile, c));
  CHECK_FALSE(load_ceilings(folder / kFile));
  c.threads -= 1;
  c.flops_one = -1;
  REQUIRE(save_ceilings(folder / kFile, c));
  CHECK_FALSE(load_ceilings(folder / kFile));
}

TEST_CASE("ceilings: of a busy and a later measurement the better figures are kept") {
  const test::TemporaryFolder folder;
  MachineCeilings busy = quick(), later = busy;
  busy.busy = true;
  busy.flops_all = 5e9;
  busy.levels.back().all.copy = 9e9;
  later.flops_all = 7e9;
  later.levels.back().all.copy = 3e9;
  take_best(later, busy);
  CHECK(later.flops_all == 7e9);
  CHECK(later.levels.back().all.copy == 9e9);

  REQUIRE(save_ceilings(folder / kFile, busy));
  busy.file = folder / kFile;
  CHECK_FALSE(is_stale(busy));  // just measured
  std::filesystem::last_write_time(
      folder / kFile, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(is_stale(busy));
  later.file = busy.file;
  later.busy = false;
  CHECK_FALSE(is_stale(later));
}

TEST_CASE("ceilings: a measurement on a busy machine does not replace better figures") {
  const test::TemporaryFolder folder;
  const std::string file = folder / kFile;
  MachineCeilings good = quick();
  good.busy = false;
  good.flops_all = 500e9;
  good.levels.back().all.read = 90e9;
  REQUIRE(save_ceilings(file, good));
  MachineCeilings bad = quick();
  bad.busy = true;
  bad.flops_all = 1e9;
  bad.flops_one = good.flops_one;
  bad.levels.back().all.read = 1e9;
  bad.levels.front().all.write = 777e9;  // one figure may well be better
  REQUIRE(merge_ceilings(file, bad));
  for (const MachineCeilings& c : {bad, *load_ceilings(file)}) {
    CHECK(c.flops_all == 500e9);
    CHECK(c.levels.back().all.read == 90e9);
    CHECK(c.levels.front().all.write == 777e9);
    CHECK_FALSE(c.busy);  // the figures of the quiet run are there
  }
}

TEST_CASE("ceilings: figures of another ISA level or number of threads are not mixed") {
  MachineCeilings a = quick(), b = a;
  b.flops_all = 1e15;
  b.isa = "other";
  take_best(a, b);
  CHECK(a.flops_all < 1e15);
  b.isa = a.isa;
  b.threads = a.threads + 1;
  take_best(a, b);
  CHECK(a.flops_all < 1e15);
  b.threads = a.threads;
  b.cpu = "another";
  take_best(a, b);
  CHECK(a.flops_all < 1e15);
  CHECK(ceilings_file("v3", 2) != ceilings_file("v4", 2));
  CHECK(ceilings_file("v3", 2) != ceilings_file("v3", 4));
}

TEST_CASE("ceilings: processes that measure at once lose no better figure") {
  const test::TemporaryFolder folder;
  const std::string file = folder / kFile;
  const MachineCeilings base = quick();
  constexpr int kProcesses = 6, kRounds = 20;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      MachineCeilings own = base;
      for (int round = 0; round < kRounds; ++round) {
        own.flops_all = 1e15 + i * 1000 + round;
        if (!merge_ceilings(file, own)) _exit(1);
        if (own.flops_all < 1e15 + i * 1000 + round) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(ceilings_from_text(test::read_bytes(file)).flops_all ==
        1e15 + (kProcesses - 1) * 1000 + kRounds - 1);
}

TEST_CASE(
    "ceilings: the rates are those of the fastest access, and no level is below a farther one") {
  MachineCeilings c;
  c.flops_one = 60e9;
  c.flops_all = 50e9;  // other programs held the cores
  c.levels = {{"L1", 1000, {10, 10, 10}, {90, 20, 30}},
              {"L2", 2000, {10, 10, 10}, {20, 30, 25}},
              {"memory", 9000, {10, 45, 10}, {20, 15, 40}}};
  const MachineRates r = rates_of(c);
  CHECK(r.flops_per_second == 60e9);
  REQUIRE(r.levels.size() == 3);
  CHECK(r.bytes_per_second == 45);
  CHECK(r.levels[2].access == MemoryAccess::Write);
  CHECK(r.levels[1].bytes_per_second == 45);  // not 30: memory gives more
  CHECK(r.levels[0].bytes_per_second == 90);
  CHECK(r.levels[0].access == MemoryAccess::Read);
  CHECK(r.memory_rate(900) == 90);
  CHECK(r.memory_rate(1001) == 45);
  CHECK(r.memory_rate(1e12) == 45);
  CHECK(r.least(0, 900).least() == 10);
  CHECK(r.text().find("(write in memory)") != std::string::npos);
  CHECK(r.warning().empty());
  CHECK(r.warning(1.5).find("150 % of the ceiling") != std::string::npos);
  c.busy = true;
  CHECK(rates_of(c).warning().find("other programs were using the cores") != std::string::npos);
  const MachineRates given{50e9, 10e9};
  CHECK(given.text() == "50.00 GFLOP/s, 10.00 GB/s (given)");
  CHECK(given.warning(2.22).find("222 % of the ceiling was reached: this machine is faster") == 0);
}

TEST_CASE("ceilings: no temporary file stays, and a place that cannot be written is no error") {
  const test::TemporaryFolder folder;
  REQUIRE(save_ceilings(folder / kFile, quick()));
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 1);
  CHECK_FALSE(save_ceilings("/proc/no/such/place.json", quick()));
  CHECK_FALSE(save_ceilings("", quick()));
}
