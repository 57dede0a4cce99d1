// Recording: what a session sees of ops, scopes, modules, backward, memory and threads, and that a
// recording survives forks, kills and a full limit. The numbers must reconcile to the nanosecond
// and the byte.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <thread>

#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"
#include "recorder/recorder.h"
#include "tests/profile/calls.h"

namespace pellucid {
namespace {

using profile::Event;
using profile::EventKind;
using profile::Phase;
using profile::Profile;

const profile::Signature& signature(const Profile& p, const Event& e) {
  return p.signatures[static_cast<size_t>(e.signature)];
}

// A parent contains its children, and what it took itself is the rest.
void check_tree(const Profile& p) {
  std::vector<int64_t> below(p.events.size());
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    REQUIRE(e.end >= e.begin);
    REQUIRE(e.parent < static_cast<int32_t>(i));
    if (e.parent < 0) continue;
    const Event& above = p.events[static_cast<size_t>(e.parent)];
    REQUIRE(above.begin <= e.begin);
    REQUIRE(e.end <= above.end);
    REQUIRE(above.thread == e.thread);
    below[static_cast<size_t>(e.parent)] += e.end - e.begin;
  }
  for (size_t i = 0; i < p.events.size(); ++i)
    REQUIRE(p.events[i].self == p.events[i].end - p.events[i].begin - below[i]);
}

// What events allocated is what the blocks say of them.
void check_memory(const Profile& p) {
  int64_t by_events = 0;
  for (const Event& e : p.events) by_events += e.allocated;
  int64_t all = 0;
  for (const profile::Allocation& a : p.allocations)
    if (a.event >= 0) all += a.bytes;
  CHECK(by_events == all);
}

TEST_CASE("profile: a training step is recorded with its modules, phases, costs and memory") {
  nn::Sequential model(nn::Linear(10, 8), nn::ReLU(), nn::Linear(8, 2));
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1));
  const Tensor x = randn({4, 10}), y = randn({4, 2});
  ProfilerSession session;
  for (int i = 0; i < 3; ++i) {
    profile::begin_step();
    const Tensor loss = nn::functional::mse_loss(model->forward(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  profile::end_step();
  const Profile p = session.stop();
  check_tree(p);
  check_memory(p);
  const auto count = calls(p);
  CHECK(count.at("step") == 3);
  CHECK(count.at("Sequential") == 3);
  CHECK(count.at("Linear") == 6);
  CHECK(count.at("ReLU") == 3);
  CHECK(count.at("backward") == 3);
  CHECK(count.at("Optimizer.step#SGD.step") == 3);
  CHECK(count.at("sgd_step") == 12);
  CHECK(p.run.mode == "trace");
  CHECK(p.run.complete);
  CHECK(p.run.dropped == 0);

  int backward_of_linear = 0;
  for (const Event& e : p.events) {
    const profile::Signature& s = signature(p, e);
    if (s.kind == EventKind::Op) CHECK_MESSAGE(s.has_cost, s.name);
    if (s.name == "sgd_step") CHECK(e.phase == Phase::Optimizer);
    if (s.kind != EventKind::Backward || e.forward < 0) continue;
    const Event& f = p.events[static_cast<size_t>(e.forward)];
    CHECK(e.phase == Phase::Backward);
    CHECK(f.phase == Phase::Forward);
    CHECK(e.module == f.module);
    CHECK(e.site == f.site);
    if (e.module >= 0 && p.modules[static_cast<size_t>(e.module)].type == "Linear")
      ++backward_of_linear;
  }
  CHECK(backward_of_linear == 6);
  CHECK(p.modules.size() == 4);
  CHECK(p.modules[1].path == "0");
  CHECK(p.modules[1].parameters == 88);
}

TEST_CASE("profile: the recorded peak is the allocator's") {
  empty_cache();
  reset_peak_memory_stats();
  ProfilerSession session;
  {
    const Tensor a = zeros({1000, 100});
    const Tensor b = a + 1;
    (a * b).sum();
  }
  zeros({10});
  const int64_t peak = memory_stats().peak;
  const Profile p = session.stop();
  CHECK(p.run.peak_memory == peak);
  check_memory(p);
}

TEST_CASE("profile: scopes, exceptions and threads") {
  ProfilerSession session;
  {
    const RecordFunction outer("outer");
    const RecordFunction inner("inner \"quoted\"\n");
    zeros({2, 3}) + zeros({3});
    CHECK_THROWS_AS(matmul(zeros({2, 3}), zeros({2, 3})), ShapeError);
  }
  std::thread([] { ones({5}).sum(); }).join();
  const Profile p = session.stop();
  check_tree(p);
  const auto count = calls(p);
  CHECK(count.at("outer") == 1);
  CHECK(count.at("inner \"quoted\"\n") == 1);
  int threw = 0;
  for (const Event& e : p.events) threw += e.threw;
  CHECK(threw >= 1);
  CHECK(p.threads.size() == 2);
}

TEST_CASE("profile: whole stacks on request") {
  profile::RecorderOptions o;
  o.stacks = true;
  ProfilerSession session("", o);
  ones({2}).add(1);
  const Profile p = session.stop();
  check_tree(p);
  for (const Event& e : p.events)
    if (e.stack >= 0) CHECK(e.site == p.frames[static_cast<size_t>(e.stack)].site);
}

TEST_CASE("profile: counting") {
  profile::RecorderOptions o;
  o.mode = profile::Mode::Count;
  ProfilerSession session("", o);
  const Tensor x = ones({3});
  for (int i = 0; i < 100; ++i) x.add(x);
  const Profile p = session.stop();
  CHECK(p.events.empty());
  int64_t additions = 0;
  for (const profile::CallCount& c : p.counts)
    if (p.signatures[static_cast<size_t>(c.signature)].name == "add") additions += c.calls;
  CHECK(additions == 100);
  CHECK(p.run.event_cost > 0);
  const std::string overview = profile::to_text(profile::report(p, "overview", {}));
  CHECK(overview.find("recording: ") != std::string::npos);
  CHECK(overview.find(" calls x ") != std::string::npos);
  CHECK(overview.find(" of raw counters") != std::string::npos);
}

TEST_CASE("profile: one recording at a time, and it can start in the middle of a scope") {
  const RecordFunction before("before");
  {
    ProfilerSession session;
    CHECK_THROWS_AS(ProfilerSession(), ValueError);
    const RecordFunction left_open("left open");
    ones({2}).sum();
    const Profile p = session.stop();
    CHECK(calls(p).contains("sum"));
    CHECK_THROWS_AS(session.stop(), ValueError);
  }
  CHECK_FALSE(profile::recording());
}

TEST_CASE("profile: at the limit events are dropped and counted, and the program goes on") {
  profile::RecorderOptions o;
  o.limit = int64_t{8} << 20;
  ProfilerSession session("", o);
  const Tensor x = ones({1});
  for (int i = 0; i < 100'000; ++i) x.add(x);
  const Profile p = session.stop();
  CHECK(p.run.dropped > 0);
  CHECK(p.events.size() > 60'000);
  check_tree(p);
}

TEST_CASE("profile: a scope that outlasts the buffer is completed in the file") {
  ProfilerSession session;
  {
    const RecordFunction scope("long");
    const Tensor x = ones({1});
    for (int i = 0; i < 10'000; ++i) x.add(x);
  }
  const Profile p = session.stop();
  check_tree(p);
  CHECK(calls(p).at("add") == 10'000);
  for (const Event& e : p.events) {
    CHECK_FALSE(e.open);
    if (signature(p, e).name == "long") CHECK(e.self < e.end - e.begin);
  }
}

// What identifies the inputs of the calls of one op, in order.
std::vector<uint32_t> inputs_of(const Profile& p, std::string_view name) {
  std::vector<uint32_t> found;
  for (const Event& e : p.events)
    if (signature(p, e).name == name) found.push_back(e.inputs);
  return found;
}

TEST_CASE("profile: calls that read the same values are told from others") {
  const NoGradGuard no_grad;
  Tensor x = rand({128, 128});
  ProfilerSession session;
  exp(x);
  exp(x);
  x.add_(1);
  exp(x);
  exp(x.t());
  for (int i = 0; i < 2; ++i) cos(x + 1);  // at the same address, but not the same
  x.mul(2.0);
  x.mul(2.0);
  x.mul(3.0);
  sin(ones({3}));  // too small to matter
  x.data_ptr<float>()[0] = 5;
  tanh(x);  // who knows what was written
  const Profile p = session.stop();
  const auto e = inputs_of(p, "exp"), c = inputs_of(p, "cos"), m = inputs_of(p, "mul");
  REQUIRE(e.size() == 4);
  CHECK(e[0] != 0);
  CHECK(e[0] == e[1]);
  CHECK(e[1] != e[2]);
  CHECK(e[2] != e[3]);
  CHECK(c.at(0) != c.at(1));
  CHECK(m.at(0) == m.at(1));
  CHECK(m.at(1) != m.at(2));
  CHECK(inputs_of(p, "sin").at(0) == 0);
  CHECK(inputs_of(p, "tanh").at(0) == 0);
}

TEST_CASE("profile: page faults and switches are charged to what ran") {
  constexpr size_t kPages = 50, kPageBytes = 4096;
  ProfilerSession session;
  {
    const RecordFunction scope("touch");
    void* memory = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    madvise(memory, kPages * kPageBytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < kPages; ++i) static_cast<volatile char*>(memory)[i * kPageBytes] = 1;
    munmap(memory, kPages * kPageBytes);
  }
  {
    const RecordFunction scope("sleep");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Profile p = session.stop();
  if (!p.run.stalls_missing.empty()) {
    MESSAGE("not recorded here: " << p.run.stalls_missing);
    return;
  }
  std::map<std::string, int> faults, waits;
  int64_t slept = 0;
  for (const profile::Stall& s : p.stalls) {
    CHECK(s.duration >= 0);
    if (s.event < 0) continue;
    const Event& e = p.events[static_cast<size_t>(s.event)];
    CHECK(s.begin >= e.begin);
    CHECK(s.begin < e.end);
    const std::string& name = signature(p, e).name;
    if (s.kind == profile::Stall::Kind::PageFault) ++faults[name];
    if (s.kind == profile::Stall::Kind::Waiting) ++waits[name];
    if (s.kind == profile::Stall::Kind::Waiting && name == "sleep") slept += s.duration;
  }
  CHECK(faults["touch"] >= static_cast<int>(kPages));
  CHECK(waits["sleep"] >= 1);
  CHECK(slept >= 4'000'000);
}

std::string fresh_folder(const char* name) {
  const auto path = std::filesystem::temp_directory_path() /
                    (std::string("pellucid-test-") + name + "-" + std::to_string(getpid()));
  std::filesystem::remove_all(path);
  return path.string();
}

TEST_CASE("profile: a killed program leaves a readable recording") {
  const std::string folder = fresh_folder("killed");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    profile::RecorderOptions o;
    o.folder = folder;
    profile::start_recording(o);
    const RecordFunction scope("doomed");
    const Tensor x = ones({4});
    for (int i = 0; i < 50; ++i) x.add(x);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  const Profile p = profile::collect(folder);
  check_tree(p);
  const auto count = calls(p);
  CHECK(count.at("add") == 50);
  CHECK_FALSE(p.run.complete);
  bool open = false;
  for (const Event& e : p.events)
    if (signature(p, e).name == "doomed") open = e.open;
  CHECK(open);
  profile::remove_folder(folder);
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("profile: the child of a fork records into files of its own") {
  const std::string folder = fresh_folder("fork");
  profile::RecorderOptions o;
  o.folder = folder;
  profile::start_recording(o);
  const Tensor x = ones({4});
  x.add(x);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    x.mul(x);
    profile::stop_recording();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  x.add(x);
  profile::stop_recording();
  const Profile p = profile::collect(folder);
  check_tree(p);
  const auto count = calls(p);
  CHECK(count.at("add") == 2);
  CHECK(count.at("mul") == 1);
  std::map<int32_t, int> processes;
  for (const profile::Thread& t : p.threads) ++processes[t.process];
  CHECK(processes.size() == 2);
  profile::remove_folder(folder);
}

TEST_CASE("profile: a folder without a recording") {
  CHECK_THROWS_AS(profile::collect("/nonexistent/folder"), IoError);
  const std::string folder = fresh_folder("empty");
  std::filesystem::create_directory(folder);
  CHECK_THROWS_AS(profile::collect(folder), IoError);
  std::filesystem::remove_all(folder);
}

TEST_CASE("profile: samples know the op and its line") {
  profile::RecorderOptions o;
  o.mode = profile::Mode::Sample;
  o.sample_rate = 1000;
  ProfilerSession session("", o);
  const Tensor x = randn({256, 256});
  Tensor y = x;
  // Processor time: that is what the timers run on, and others may hold the cores.
  const std::clock_t begun = std::clock();
  int64_t calls = 0;
  for (; std::clock() - begun < CLOCKS_PER_SEC * 3 / 10; ++calls) y = matmul(x, x);
  const Profile p = session.stop();
  CHECK(p.run.sample_rate == 1000);
  int in_matmul = 0;
  for (const profile::Sample& s : p.samples) {
    REQUIRE(s.stack >= 0);
    in_matmul += s.signature >= 0 && p.signatures[static_cast<size_t>(s.signature)].name == "mm";
  }
  CHECK(p.samples.size() > 5);
  CHECK(in_matmul > 0);
  // What it took: each sample, and each op that told of itself.
  CHECK(p.run.sample_cost > 500);
  CHECK(p.run.sample_cost < 1e6);
  CHECK(p.run.scopes > calls);
  CHECK(p.run.event_cost >= 0);  // on a busy machine it may lie below the noise
  const std::string overview = profile::to_text(profile::report(p, "overview", {}));
  CHECK(overview.find(" samples x ") != std::string::npos);
  CHECK(overview.find(" ops and scopes x ") != std::string::npos);
}

}  // namespace
}  // namespace pellucid
