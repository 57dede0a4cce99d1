// The invariants of every table, over recordings of many programs: see invariants.h.
#include "invariants.h"

#include <functional>
#include <thread>

#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/parallel.h"
#include "pellucid/pellucid.h"
#include "pellucid/profiler.h"
#include "sample_profile.h"

namespace pellucid {
namespace {

using profile::Mode;
using profile::Profile;

void train_classifier() {
  nn::Sequential model(nn::Linear(20, 16), nn::ReLU(), nn::Linear(16, 4));
  optim::Adam optimizer(model->parameters(), optim::AdamOptions(1e-3));
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({8, 20}), y = randint(4, {8});
    optimizer.zero_grad();
    nn::functional::cross_entropy(model->forward(x), y).backward();
    optimizer.step();
  }
}

void marked_steps() {
  for (int i = 0; i < 10; ++i) {
    profile::begin_step();
    const RecordFunction scope("work");
    const Tensor x = ones({16, 16});
    matmul(x, x.t()).sum();
  }
  profile::end_step();
}

void threads(int count) {
  std::vector<std::thread> all;
  for (int t = 0; t < count; ++t)
    all.emplace_back([] {
      const Tensor w = randn({32, 32}).requires_grad_();
      for (int i = 0; i < 6; ++i) {
        const RecordFunction scope("of a thread");
        relu(matmul(w, w).view({-1})).sum().backward();
      }
    });
  for (std::thread& t : all) t.join();
}

void exceptions() {
  const RecordFunction outer("outer");
  for (int i = 0; i < 5; ++i) {
    CHECK_THROWS(matmul(ones({2, 3}), ones({2, 3})));
    ones({3}).view({3, 1}).sum();
  }
}

void checkpointed() {
  const Tensor w = randn({16, 16}).requires_grad_();
  Tensor x = randn({4, 16}).requires_grad_();
  for (int i = 0; i < 4; ++i)
    x = autograd::checkpoint([&](const Tensor& in) { return relu(matmul(in, w)); }, x);
  x.sum().backward();
}

void higher_orders() {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor g = autograd::grad({x.pow(3).sum()}, {x}, {}, true, true)[0];
  g.sum().backward();
}

struct Program {
  const char* name;
  std::function<void()> run;
};

const std::vector<Program>& programs() {
  static const std::vector<Program> list = {
      {"nothing", [] {}},
      {"one op", [] { ones({10}); }},
      {"views alone",
       [] {
         const Tensor x = ones({4, 4});
         for (int i = 0; i < 30; ++i) x.t();
       }},
      {"training", train_classifier},
      {"marked steps", marked_steps},
      {"one thread", [] { threads(1); }},
      {"two threads", [] { threads(2); }},
      {"four threads", [] { threads(4); }},
      {"exceptions", exceptions},
      {"checkpointing", checkpointed},
      {"gradients of gradients", higher_orders},
  };
  return list;
}

Profile record(const Program& program, Mode mode, bool stacks = false) {
  profile::RecorderOptions o;
  o.mode = mode;
  o.stacks = stacks;
  o.sample_rate = 1000;
  ProfilerSession session("", o);
  program.run();
  return session.stop();
}

TEST_CASE("invariants: every table of a trace, for every program, on any number of threads") {
  const int before = get_num_threads();
  for (const int count : {1, 2, 4}) {
    set_num_threads(count);
    for (const Program& program : programs()) {
      INFO(program.name << " on " << count << " threads");
      test::check_invariants(record(program, Mode::Trace));
    }
  }
  set_num_threads(before);
}

TEST_CASE("invariants: every table of counts and samples") {
  for (const Mode mode : {Mode::Count, Mode::Sample})
    for (const Program& program : programs()) {
      INFO(program.name);
      test::check_invariants(record(program, mode));
    }
}

TEST_CASE("invariants: recordings with stacks, of made-up programs, and in the middle of scopes") {
  test::check_invariants(record(programs()[3], Mode::Trace, true));
  for (uint32_t seed = 0; seed < 5; ++seed) {
    Profile p = test::random_profile(seed, 400);
    for (profile::Signature& s : p.signatures)  // scopes have no cost of their own
      if (s.kind != profile::EventKind::Op) s.flops = s.bytes = 0;
    p.run.peak_memory = profile::MemoryPeak(p).total;
    test::check_invariants(p);
  }
  test::check_invariants(test::two_layer_profile(6));
  auto inner = std::make_unique<ProfilerSession>();
  const RecordFunction left("left open");
  ones({100}).sum();
  const Profile first = inner->stop();
  test::check_invariants(first);
  inner = std::make_unique<ProfilerSession>();
  ones({100}).sum();
  CHECK_THROWS_AS(ProfilerSession(), ValueError);
  test::check_invariants(inner->stop());
}

// What is called from where, by name, file and line.
std::map<std::string, int64_t> counts_of(const Profile& p) {
  std::map<std::string, int64_t> out;
  const auto add = [&](int32_t signature, int32_t site, int64_t calls) {
    const auto s = static_cast<size_t>(signature);
    out[fmt::format("{} {}:{}", p.signatures[s].name,
                    site < 0 ? "" : p.sites[static_cast<size_t>(site)].file,
                    site < 0 ? 0 : p.sites[static_cast<size_t>(site)].line)] += calls;
  };
  for (const profile::Event& e : p.events) add(e.signature, e.site, 1);
  for (const profile::CallCount& c : p.counts) add(c.signature, c.site, c.calls);
  return out;
}

TEST_CASE("invariants: counting charges every call to the line that a trace charges it to") {
  for (const Program& program : programs()) {
    INFO(program.name);
    CHECK(counts_of(record(program, Mode::Count)) == counts_of(record(program, Mode::Trace)));
  }
}

}  // namespace
}  // namespace pellucid
