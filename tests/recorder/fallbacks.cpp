// Recording where the system gives less than usual: no file descriptors, no perf_event_open. Also
// the line tables of Python's code objects, which the sampler keeps.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "pellucid/pellucid.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"
#include "recorder/python_frames.h"

namespace pellucid {
namespace {

using profile::Profile;

// While it lives, the process can open only so many more files.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int highest = dup(0);
    close(highest);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(highest) + 64;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int file = dup(0); file >= 0; file = dup(0)) taken_.push_back(file);
    for (; more > 0 && !taken_.empty(); --more) {
      close(taken_.back());
      taken_.pop_back();
    }
  }
  ~FewFiles() {
    for (const int file : taken_) close(file);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewFiles(const FewFiles&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

bool has_note(const Profile& p, std::string_view part) {
  return std::any_of(p.run.notes.begin(), p.run.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

void add_often(int count) {
  const Tensor x = ones({1});
  for (int i = 0; i < count; ++i) x.add(x);
}

/// A thread of its own computes while the process can open only `more` files. It begins before and
/// ends after: UBSan looks at a thread's objects through a pipe, which it could not make then.
void add_often_with_few_files(int more, int count) {
  enum { kBegun, kFew, kDone, kMany };
  std::atomic<int> now{kBegun};
  const auto wait_for = [&](int what) {
    while (now != what) std::this_thread::yield();
  };
  std::thread worker([&] {
    wait_for(kFew);
    add_often(count);
    now = kDone;
    wait_for(kMany);
  });
  {
    const FewFiles files(more);
    now = kFew;
    wait_for(kDone);
  }
  now = kMany;
  worker.join();
}

TEST_CASE("profile: a thread whose file cannot be made is named once, and the program goes on") {
  ProfilerSession session;
  add_often(1);
  add_often_with_few_files(0, 1000);
  add_often(1);
  const Profile p = session.stop();
  CHECK(p.threads.size() == 1);
  CHECK(std::count_if(p.run.notes.begin(), p.run.notes.end(),
                      [](const std::string& note) { return note.find("thread") == 0; }) == 1);
  CHECK(has_note(p, "is not recorded"));
  CHECK(has_note(p, "Too many open files"));
  CHECK(profile::to_text(profile::report(p, "overview", {})).find("note: thread") !=
        std::string::npos);
}

TEST_CASE("profile: a thread without a file for more keeps the events of its buffer") {
  ProfilerSession session;
  add_often(1);
  add_often_with_few_files(1, 5000);
  const Profile p = session.stop();
  CHECK(p.threads.size() == 2);
  CHECK(p.events.size() > 2000);
  CHECK(p.run.dropped > 0);
  CHECK(has_note(p, "only its first events are recorded"));
  CHECK(has_note(p, "Too many open files"));
}

TEST_CASE("profile: without perf_event_open, getrusage counts for steps and large calls") {
  setenv("PELLUCID_PROFILE_PERF", "0", 1);
  constexpr size_t kPages = 60, kPageBytes = 4096;
  ProfilerSession session;
  unsetenv("PELLUCID_PROFILE_PERF");
  {
    const RecordFunction scope("touch");
    void* memory = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    madvise(memory, kPages * kPageBytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPageBytes] = 1;
    munmap(memory, kPages * kPageBytes);
    profile::begin_step();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    profile::end_step();
  }
  const Profile p = session.stop();
  CHECK(p.run.stalls_missing.find("not permitted") != std::string::npos);
  CHECK(has_note(p, "getrusage"));
  std::map<std::string, int64_t> faults, waits;
  for (const profile::Stall& s : p.stalls) {
    REQUIRE(s.event >= 0);
    CHECK(s.duration == 0);
    CHECK(s.count >= 1);
    const profile::Event& e = p.events[static_cast<size_t>(s.event)];
    CHECK(s.begin == e.begin);
    const std::string& name = p.signatures[static_cast<size_t>(e.signature)].name;
    if (s.kind == profile::Stall::Kind::PageFault) faults[name] += s.count;
    if (s.kind == profile::Stall::Kind::Waiting) waits[name] += s.count;
  }
  CHECK(faults["touch"] >= static_cast<int64_t>(kPages));
  CHECK(faults["step"] < static_cast<int64_t>(kPages));  // a scope counts what those inside do not
  CHECK(waits["step"] >= 1);
  for (const profile::Counter& c : p.counters) {
    const bool counted = c.name == "page-faults" || c.name == "task-clock";
    if (counted) CHECK_MESSAGE(c.value > 0, c.name);
    if (c.name == "cpu-migrations") CHECK(c.missing.find("not permitted") != std::string::npos);
  }
  const std::string text = profile::to_text(profile::report(p, "roofline", {}));
  CHECK(text.find("as getrusage counts them") != std::string::npos);
}

TEST_CASE("profile: PELLUCID_PROFILE_PERF must be a yes or a no") {
  setenv("PELLUCID_PROFILE_PERF", "perhaps", 1);
  CHECK_THROWS_AS(ProfilerSession(), ValueError);
  unsetenv("PELLUCID_PROFILE_PERF");
  ProfilerSession().stop();
}

TEST_CASE("profile: lines of Python's instructions") {
  // co_linetable of CPython 3.11 and what its co_lines() gives, for a function of 12 lines with a
  // loop, an expression over two lines that goes back, and a finally.
  constexpr unsigned char kTable[] = {
      0x80, 0x0,  0xd8, 0xc,  0xd,  0x80, 0x45, 0xdd, 0xd, 0x12, 0x90, 0x31, 0x89, 0x58, 0x8c,
      0x58, 0xf0, 0x0,  0x5,  0x5,  0x15, 0xf0, 0x0,  0x5, 0x5,  0x15, 0x88, 0x1,  0xd8, 0x8,
      0xd,  0x90, 0x11, 0x90, 0x51, 0x91, 0x15, 0x89, 0xe, 0x88, 0x5,  0xf0, 0x6,  0x0,  0x9,
      0xe,  0x90, 0x21, 0xd8, 0x12, 0x13, 0xf1, 0x3,  0x1, 0x13, 0x14, 0xf1, 0x0,  0x1,  0x9,
      0x15, 0x88, 0x5,  0x88, 0x5,  0xf0, 0x4,  0x3,  0x5, 0x15, 0xd8, 0xf,  0x14, 0xe5, 0x8,
      0xd,  0x88, 0x65, 0x89, 0xc,  0x8c, 0xc,  0x88, 0xc, 0x88, 0xc,  0xf8, 0x8d, 0x5,  0x88,
      0x65, 0x89, 0xc,  0x8c, 0xc,  0x88, 0xc,  0x88, 0xc, 0xf8, 0xf8, 0xf8};
  const std::vector<std::pair<uint32_t, int>> expected = {
      {0, 1},  {1, 2},  {2, 2},  {3, 3},   {19, 3},  {20, 4},  {27, 4},  {28, 7},
      {30, 8}, {31, 7}, {37, 9}, {38, 10}, {39, 12}, {54, 12}, {56, 12}, {71, 12}};
  for (const auto& [instruction, line] : expected)
    CHECK_MESSAGE(profile::python_line(kTable, sizeof kTable, 1, instruction) == line, instruction);
  CHECK(profile::python_line(kTable, sizeof kTable, 1, 55) == 12);      // code without a line
  CHECK(profile::python_line(kTable, sizeof kTable, 1, 100'000) == 1);  // beyond its end
  CHECK(profile::python_line(kTable, 3, 7, 30) == 7);                   // cut off
  CHECK(profile::python_line(nullptr, 0, 5, 0) == 5);
  constexpr unsigned char kDamaged[] = {0xf0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
                                        0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
  profile::python_line(kDamaged, sizeof kDamaged, 1, 9);  // any line, but it ends
}

}  // namespace
}  // namespace pellucid
