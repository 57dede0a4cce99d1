// The memory of real recordings: the order of blocks is exact, blocks from before the recording
// count until they are freed, and the peak is the allocator's to the byte.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "invariants.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/parallel.h"
#include "pellucid/pellucid.h"
#include "pellucid/profiler.h"

namespace pellucid {
namespace {

using profile::Allocation;
using profile::Profile;
using test::check_memory_history;

// Records a program between two readings of the allocator.
struct Recorded {
  Profile profile;
  int64_t peak = 0, at_end = 0;
};
template <class Program> Recorded record(const Program& program) {
  empty_cache();
  reset_peak_memory_stats();
  ProfilerSession session;
  program();
  Recorded r;
  r.peak = memory_stats().peak;
  r.at_end = memory_stats().allocated;
  r.profile = session.stop();
  return r;
}

int64_t alive_at_end(const Profile& p) {
  int64_t bytes = 0;
  for (const Allocation& a : p.allocations)
    if (a.end < 0) bytes += a.bytes;
  return bytes;
}

void check_exact(const Recorded& r) {
  check_memory_history(r.profile);
  CHECK(r.profile.run.peak_memory == r.peak);
  CHECK(alive_at_end(r.profile) == r.at_end);
}

struct SmallCnn : nn::Module {
  SmallCnn() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 16, 3)));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(16, 32, 3)));
    head = register_module("head", nn::Linear(32 * 5 * 5, 10));
  }
  Tensor forward(const Tensor& x) {
    Tensor y = max_pool2d(relu(conv1->forward(x)), 2);
    y = max_pool2d(relu(conv2->forward(y)), 2);
    return head->forward(y.flatten(1));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::Linear head{nullptr};
};

void train(int steps) {
  SmallCnn net;
  optim::AdamW optimizer(net.parameters(), optim::AdamWOptions(1e-3));
  for (int i = 0; i < steps; ++i) {
    const Tensor x = randn({8, 1, 28, 28}), y = randint(10, {8});
    optimizer.zero_grad();
    nn::functional::cross_entropy(net.forward(x), y).backward();
    optimizer.step();
  }
}

TEST_CASE("memory: the parts of a network's training sum to the allocator's peak, on any threads") {
  const int before = get_num_threads();
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    check_exact(record([] { train(3); }));
  }
  set_num_threads(before);
}

TEST_CASE("memory: blocks from before the recording count until they are freed") {
  Tensor large, kept;
  {
    const MemoryCategoryGuard data(MemoryCategory::Data);
    large = zeros({250'000});
    kept = zeros({1'000});
  }
  const Recorded r = record([&] {
    large = Tensor();
    const Tensor other = ones({100'000});
  });
  check_exact(r);
  const profile::MemoryPeak peak(r.profile);
  CHECK(peak.at_start >= 1'004'000);
  CHECK(peak.by_category[static_cast<size_t>(MemoryCategory::Data)] >= 1'004'000);
  int freed = 0;
  for (const Allocation& a : r.profile.allocations)
    if (a.before && a.bytes == 1'000'000) {
      CHECK(a.end >= 0);
      CHECK(a.category == MemoryCategory::Data);
      ++freed;
    }
  CHECK(freed == 1);
  // 1 MB less and 0.4 MB more: the end lies below the start.
  CHECK(r.at_end < r.profile.run.memory_at_start);
}

TEST_CASE("memory: blocks that live no nanosecond are in order") {
  check_exact(record([] {
    for (int i = 0; i < 2'000; ++i) {
      const Tensor a = ones({300 + i % 7});
      Tensor b = a + a;
      b = b * a;
      b = Tensor();
    }
  }));
}

TEST_CASE("memory: blocks that threads hand to each other are in order") {
  // Two threads pass a block to and fro, so that what one frees the other takes at once.
  check_exact(record([] {
    std::mutex mutex;
    std::condition_variable turn;
    Tensor between;
    bool full = false;
    std::thread taker([&] {
      for (int i = 0; i < 400; ++i) {
        std::unique_lock lock(mutex);
        turn.wait(lock, [&] { return full; });
        between = Tensor();
        full = false;
        turn.notify_one();
      }
    });
    for (int i = 0; i < 400; ++i) {
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return !full; });
      between = ones({20'000 + i});
      full = true;
      turn.notify_one();
    }
    taker.join();
  }));
}

TEST_CASE("memory: many threads at once: nothing is negative and nothing is lost") {
  const Recorded r = record([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([] {
        Tensor x = ones({1'000});
        for (int i = 0; i < 300; ++i) x = x * 1.5 + ones({1'000});
      });
    for (std::thread& t : threads) t.join();
  });
  check_memory_history(r.profile);
  CHECK(alive_at_end(r.profile) == r.at_end);
}

thread_local Tensor t_kept;

TEST_CASE("memory: what a thread frees while it ends counts") {
  const Recorded r = record([] {
    // The tensor is there before the thread's log is, so it goes after it.
    for (int i = 0; i < 3; ++i)
      std::thread([] {
        t_kept = Tensor();
        t_kept = ones({50'000});
      }).join();
    const Tensor after = ones({60'000});
  });
  check_exact(r);
  CHECK(r.peak < 2 * 4 * 60'000 + r.profile.run.memory_at_start);
}

TEST_CASE("memory: recordings that start and stop around living tensors") {
  std::vector<Tensor> alive;
  for (int i = 0; i < 8; ++i) {
    check_exact(record([&] {
      alive.push_back(ones({10'000 + i}));
      alive.push_back(alive.back() + 1);
      if (i % 3 == 2) alive.erase(alive.begin());
      if (i % 2 == 1) alive.clear();
    }));
  }
}

TEST_CASE("memory: backward in threads, checkpointing, and an op that throws") {
  check_exact(record([] {
    const Tensor w = randn({64, 64}).requires_grad_();
    const Tensor x = randn({16, 64});
    const Tensor y =
        autograd::checkpoint([&](const Tensor& in) { return relu(matmul(in, w)); }, x).sum();
    y.backward();
    CHECK_THROWS(matmul(x, x));
  }));
  const Recorded r = record([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([] {
        const Tensor w = randn({64, 64}).requires_grad_();
        for (int i = 0; i < 5; ++i) relu(matmul(w, w)).sum().backward();
      });
    for (std::thread& t : threads) t.join();
  });
  check_memory_history(r.profile);
  CHECK(alive_at_end(r.profile) == r.at_end);
}

TEST_CASE("memory: the child of a fork has its parent's blocks, and gives them back") {
  Tensor large = ones({100'000});
  const Recorded r = record([&] {
    const pid_t child = fork();
    if (child == 0) {
      large = Tensor();
      const Tensor own = ones({10'000});
      _exit(own.defined() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    large = Tensor();
    const Tensor other = ones({1'000});
  });
  check_memory_history(r.profile);
}

TEST_CASE("memory: modes without blocks tell nothing of memory") {
  for (const profile::Mode mode : {profile::Mode::Count, profile::Mode::Sample}) {
    const Tensor before = ones({1'000});
    profile::RecorderOptions o;
    o.mode = mode;
    ProfilerSession session("", o);
    ones({10'000}).add(1);
    const Profile p = session.stop();
    CHECK(p.run.peak_memory == 0);
    CHECK(p.run.memory_at_start == 0);
    CHECK(profile::to_text(profile::report(p, "overview")).find("the peak of") ==
          std::string::npos);
  }
}

TEST_CASE("memory: the file keeps the order and what was there before") {
  const std::string file = fmt::format("{}/order-{}.pellucid", P_tmpdir, getpid());
  Tensor large = ones({100'000});
  const Recorded r = record([&] {
    large = Tensor();
    for (int i = 0; i < 50; ++i) ones({1'000 + i}) + 1;
  });
  r.profile.save(file);
  const Profile q = Profile::load(file);
  unlink(file.c_str());
  REQUIRE(q.allocations.size() == r.profile.allocations.size());
  for (size_t i = 0; i < q.allocations.size(); ++i) {
    CHECK(q.allocations[i].order == r.profile.allocations[i].order);
    CHECK(q.allocations[i].freed_order == r.profile.allocations[i].freed_order);
    CHECK(q.allocations[i].before == r.profile.allocations[i].before);
  }
  check_memory_history(q);
}

}  // namespace
}  // namespace pellucid
