// Programs under bad conditions: memory that runs out at any point, kernels that throw, arguments
// that share memory, tensors without elements, threads that end, and wrong use.
#include <doctest/doctest.h>

#include <atomic>
#include <iostream>
#include <latch>
#include <optional>
#include <sstream>
#include <thread>

#include "base/allocator.h"
#include "core/fuse.h"
#include "core/program.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/op.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/program.h"

namespace pellucid {
namespace {

using detail::ProgramCache;

/// Small tensors run in groups, and small results may be made again.
struct Small {
  Small() { detail::least_fused = 0, graph::least_repeated = 1; }
  ~Small() {
    detail::least_fused = detail::kLeastFused;
    graph::least_repeated = graph::kLeastRepeated;
    graph::PassSet::set(graph::PassSet());
  }
  Small(const Small&) = delete;
};

// Products with epilogues, groups, rows, results that wait, changes in place and of a part.
Tensor work(const Tensor& state, const Tensor& x) {
  const Tensor early = x.exp(), product = matmul(x, x);
  const Tensor a = (product + x).relu() * 0.5;
  state.add_(a);
  const Tensor b = matmul(a, x).softmax(1);
  state.slice(0, 0, 2).mul_(2);
  const Tensor c = layer_norm(matmul(b, a) + early, {x.size(1)});
  state.add_(c);
  return (c * early + b).tanh() + early.sum();
}

struct Outcome {
  Tensor result, state;
};

Outcome eager(const Tensor& x) {
  const LazyGuard at_once(false);
  const Tensor state = ones(x.sizes());
  const Tensor result = work(state, x);
  return {result, state};
}

// Lets the nth allocation fail, for each n until none does. `run` changes the state; what it left
// is read afterwards, and must be eager's, before the calls or after them.
template <class Run> void each_allocation_fails(const Tensor& x, const Run& run) {
  const Outcome expected = eager(x);
  Tensors states{ones(x.sizes()), expected.state};
  states.push_back(states[0] + (matmul(x, x) + x).relu() * 0.5);
  states.push_back(states[2].clone());
  states[3].slice(0, 0, 2).mul_(2);
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 2000);
    const Tensor state = ones(x.sizes());
    bool failed = false;
    Tensor y;
    set_allocation_failure(n);
    try {
      y = run(state);
    } catch (const OutOfMemoryError&) { failed = true; }
    set_allocation_failure(0);
    if (!failed) {
      CHECK(y.equal(expected.result));
      CHECK(state.equal(expected.state));
      break;
    }
    ++failures;
    // What was captured goes on where it stopped; if the function itself failed, behind its last
    // change.
    CHECK(std::any_of(states.begin(), states.end(), [&](auto& s) { return state.equal(s); }));
    const Tensor again = ones(x.sizes());
    CHECK(run(again).equal(expected.result));
    CHECK(again.equal(expected.state));
  }
  CHECK(failures > 0);
}

TEST_CASE("faults: every allocation of a program fails, with groups, epilogues and budgets") {
  const Small small;
  const NoGradGuard off;
  const Tensor x = rand({12, 12});
  for (const char* passes : {"", "-fuse", "-plan", "-fuse,-plan", "-cse,-neighbours"})
    for (const int64_t budget : {0, 1}) {
      INFO("passes '" << std::string(passes) << "', budget " << budget);
      graph::PassSet::set(graph::PassSet(passes));
      auto f = compile(work, CompileMode::Always, budget);
      const Tensor warm = ones({12, 12});
      for (int i = 0; i < 3; ++i) f(warm, x);
      each_allocation_fails(x, [&](const Tensor& state) { return f(state, x); });
      ProgramCache::get().clear();  // and while a program is made
      each_allocation_fails(x, [&](const Tensor& state) { return f(state, x); });
    }
}

TEST_CASE("faults: every allocation of a capture that runs without a program fails") {
  const Small small;
  const NoGradGuard off;
  const Tensor x = rand({12, 12});
  each_allocation_fails(x, [&](const Tensor& state) {
    ProgramCache::get().clear();
    const LazyGuard lazy;
    Tensor y = work(state, x);
    eval();
    return y;
  });
}

// A replay has no captured calls: what it changed before it failed stays, as in an eager call that
// fails in the middle, and going on works.
template <class Run> void each_allocation_of_a_replay_fails(const Tensor& x, const Run& run) {
  const Outcome expected = eager(x);
  const Tensor state = ones(x.sizes());
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 2000);
    state.fill_(1);
    bool failed = false;
    set_allocation_failure(n);
    try {
      run(state);
    } catch (const OutOfMemoryError&) { failed = true; }
    set_allocation_failure(0);
    state.fill_(1);
    CHECK(run(state).equal(expected.result));
    CHECK(state.equal(expected.state));
    if (!failed) break;
    ++failures;
  }
  CHECK(failures > 0);
}

TEST_CASE("faults: every allocation of a sealed function and of a traced program fails") {
  const Small small;
  const NoGradGuard off;
  const Tensor x = rand({12, 12});
  auto sealed = compile(work);
  sealed.seal();
  const Tensor state = ones({12, 12});
  for (int i = 0; i < 3; ++i) sealed(state, x);
  each_allocation_of_a_replay_fails(x, [&](const Tensor& s) { return sealed(s, x); });

  const Program p = trace([](const Tensors& in) { return Tensors{work(in[0], in[1])}; },
                          {{"state", state}, {"x", x}});
  each_allocation_of_a_replay_fails(x, [&](const Tensor& s) { return p.run(Tensors{s, x})[0]; });

  // While it is traced: nothing changes, and the next trace is right.
  for (int64_t n = 1; n < 200; ++n) {
    const Tensor before = ones({12, 12});
    std::optional<Program> made;
    set_allocation_failure(n);
    try {
      made = trace([](const Tensors& in) { return Tensors{work(in[0], in[1])}; },
                   {{"state", before}, {"x", x}});
    } catch (const OutOfMemoryError&) {}
    set_allocation_failure(0);
    CHECK(before.equal(ones({12, 12})));
    if (made) {
      CHECK(made->run(Tensors{before, x})[0].equal(eager(x).result));
      break;
    }
  }
}

// An op whose kernel throws as often as it is told to.
std::atomic<int> throws_left{0};
const OpDef& fragile_op() {
  static const OpDef op = {
      .schema = "user_fragile(Tensor self) -> Tensor",
      .doc = "self, or an error.",
      .kind = OpKind::Pointwise,
      .infer = [](Call& c) { c.make_output(c.in(0).sizes(), c.in(0).dtype()); },
      .kernel =
          [](Call& c) {
            PELLUCID_CHECK(throws_left.fetch_sub(1) <= 0, ValueError,
                           "user_fragile: told to fail.");
            c.out().copy_(c.in(0));
          },
      .vjp = no_gradient,
  };
  static const bool registered = (register_op(op), true);
  (void)registered;
  return op;
}

TEST_CASE("faults: a kernel that throws in the middle of a program, and what comes after it") {
  const Small small;
  const NoGradGuard off;
  const Tensor x = rand({12, 12});
  const auto f = [](const Tensor& state, const Tensor& in) {
    const Tensor early = in.exp(), a = (matmul(in, in) + in).relu();
    state.add_(a);
    const Tensor b = invoke(fragile_op(), Values{Value(a)}, {}, false)[0].tensor() * early;
    state.mul_(b);
    return matmul(b, early) + a;
  };
  for (const char* passes : {"", "-fuse", "-plan", "-neighbours"})
    for (const int64_t budget : {0, 1}) {
      INFO("passes '" << std::string(passes) << "', budget " << budget);
      graph::PassSet::set(graph::PassSet(passes));
      throws_left = 0;
      const Tensor expected_state = ones({12, 12});
      const Tensor expected = [&] {
        const LazyGuard at_once(false);
        return f(expected_state, x);
      }();
      auto fast = compile(f, CompileMode::Always, budget);
      for (int round = 0; round < 5; ++round) {
        const Tensor state = ones({12, 12});
        throws_left = 1;
        CHECK_THROWS_AS(fast(state, x), ValueError);
        throws_left = 0;
        CHECK(state.equal(expected_state));  // the rest runs when it is read
        const Tensor again = ones({12, 12});
        CHECK(fast(again, x).equal(expected));
        CHECK(again.equal(expected_state));
      }
    }
  graph::PassSet::set(graph::PassSet());
  auto sealed = compile(f).seal();
  for (int round = 0; round < 5; ++round) {
    const Tensor state = ones({12, 12}), again = ones({12, 12});
    throws_left = 1;
    CHECK_THROWS_AS(sealed(state, x), ValueError);
    throws_left = 0;
    const Tensor y = sealed(again, x);
    CHECK(again[0][0].item<float>() != 1);
    CHECK(y.sizes() == x.sizes());
  }
}

TEST_CASE("faults: tensors without elements and without dims go through every pass") {
  const Small small;
  const NoGradGuard off;
  const auto f = [](const Tensor& x) {
    const Tensor a = (x * 2 + 1).relu(), b = (x * 2 + 1).exp();
    const Tensor state = x.clone();
    state.add_(a);
    return Tensors{a + b, state, a.sum(), (a.sum() * 2).exp(), b.reshape({-1}), rand_like(x) + b};
  };
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{}, {0}, {0, 3}, {3, 0, 2}, {1}, {1, 1}})
    for (const graph::Pass& pass : graph::passes())
      for (const bool alone : {false, true}) {
        INFO(IntArrayRef(sizes) << ", pass " << std::string(pass.name));
        graph::PassSet::set(graph::PassSet((alone ? "" : "-") + std::string(pass.name)));
        const Tensor x = full(sizes, 0.5);
        manual_seed(1);
        const Tensors expected = [&] {
          const LazyGuard at_once(false);
          return f(x);
        }();
        auto fast = compile(f, CompileMode::Always, 1);
        for (int i = 0; i < 3; ++i) {
          manual_seed(1);
          const Tensors found = fast(x);
          for (size_t k = 0; k < found.size(); ++k) CHECK(found[k].equal(expected[k]));
        }
        const Program p = trace([&](const Tensors& in) { return f(in[0]); }, {{"x", x}});
        manual_seed(1);
        const Tensors found = p.run(Tensors{x});
        for (size_t k = 0; k < found.size(); ++k) CHECK(found[k].equal(expected[k]));
      }
}

TEST_CASE("faults: a program refuses tensors that share memory which it changes") {
  const NoGradGuard off;
  const auto f = [](const Tensors& in) {
    const Tensor before = in[1].exp();  // cse merges the two: in[1] is not changed
    in[0].add_(1);
    return Tensors{before + in[1].exp()};
  };
  const Program p = trace(f, {{"x", zeros({4})}, {"y", zeros({4})}});
  const Tensor x = zeros({4});
  CHECK_THROWS_AS(p.run(Tensors{x, x}), ValueError);
  CHECK_THROWS_AS(p.run(Tensors{x, x.view({2, 2}).view({4})}), ValueError);
  CHECK(x.equal(zeros({4})));
  std::vector<float> memory(8, 0);
  CHECK_THROWS_AS(p.run(Tensors{from_blob(memory.data(), {4}), from_blob(memory.data() + 2, {4})}),
                  ValueError);
  CHECK(p.run(Tensors{from_blob(memory.data(), {4}), from_blob(memory.data() + 4, {4})})[0].equal(
      full({4}, 2.0)));
  const Tensor square = zeros({2, 2});
  const Program q = trace(f, {{"x", square}, {"y", square}});
  CHECK_THROWS_AS(q.run(Tensors{square, square.t()}), ValueError);

  const Tensor w = ones({4});  // of the program
  const Program reads = trace(
      [&](const Tensors& in) {
        in[0].mul_(w);
        return Tensors{w + in[0]};
      },
      {{"x", zeros({4})}});
  CHECK_THROWS_AS(reads.run(Tensors{w}), ValueError);
  const Program writes = trace(
      [&](const Tensors& in) {
        w.add_(in[0]);
        return Tensors{in[0] * 2};
      },
      {{"x", zeros({4})}});
  CHECK_THROWS_AS(writes.run(Tensors{w}), ValueError);
  CHECK(writes.run(Tensors{ones({4})})[0].equal(full({4}, 2.0)));
  const Program only_reads =
      trace([&](const Tensors& in) { return Tensors{in[0] + in[1] + w}; }, {{"x", x}, {"y", x}});
  CHECK(only_reads.run(Tensors{w, w})[0].equal(w + w + w));

  auto sealed = compile([](const Tensor& a, const Tensor& b) {
                  const Tensor before = b.exp();
                  a.add_(1);
                  return before + b.exp();
                }).seal();
  for (int i = 0; i < 3; ++i) sealed(zeros({4}), zeros({4}));
  CHECK_THROWS_AS(sealed(x, x), ValueError);
}

TEST_CASE("faults: wrong use of trace and of programs") {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2 + in[1], in[0]}; };
  const NamedTensors example{{"a", ones({3})}, {"b", ones({3})}};
  CHECK_THROWS_AS(trace(f, {{"a", ones({3})}, {"a", ones({3})}}), ValueError);
  CHECK_THROWS_AS(trace(f, {{"a", ones({3})}, {"b", Tensor()}}), ValueError);
  CHECK_THROWS_AS(trace(nullptr, example), ValueError);
  const Program p = trace(f, example);
  const auto refused = [&](const NamedTensors& in, const char* what) {
    std::string said;
    try {
      p.run(in);
    } catch (const Error& e) { said = e.what(); }
    INFO(said);
    CHECK(said.find(what) != std::string::npos);
  };
  refused({{"a", ones({3})}}, "the input 'b' is missing");
  refused({{"a", ones({3})}, {"A", ones({3})}}, "there is no input 'A'; it has: a, b");
  refused({{"a", ones({3})}, {"b", ones({3})}, {"a", ones({3})}}, "'a' was given twice");
  refused({{"a", ones({3})}, {"b", ones({4})}}, "input 'b' has sizes [4], but had [3]");
  refused({{"a", ones({3})}, {"b", ones({3}, kFloat64)}}, "input 'b' has dtype float64");
  refused({{"a", ones({3})}, {"b", Tensor()}}, "input 'b' is not defined");
  CHECK_THROWS_AS(p.run(Tensors{ones({3})}), ValueError);
  // Inputs that require a gradient: results have no history.
  const Tensor leaf = ones({3}).requires_grad_();
  const Tensors once = p.run(Tensors{leaf, leaf}), twice = p.run(Tensors{leaf, leaf});
  CHECK_FALSE(once[0].requires_grad());
  CHECK(once[0].equal(full({3}, 3.0)));
  // The results of each run are tensors of their own.
  once[0].fill_(9);
  CHECK(twice[0].equal(full({3}, 3.0)));
  // Within lazy code, and within the function of another program.
  const LazyGuard lazy;
  CHECK(p.run(Tensors{ones({3}) + 1, ones({3})})[0].equal(full({3}, 5.0)));
}

TEST_CASE("faults: names of passes and budgets that make no sense") {
  for (const char* text : {"nonsense", "-", "cse;dead", "--cse", "cse,-nothing", "\xff", "CSE"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(graph::PassSet{text}, ValueError);
  }
  CHECK(graph::PassSet(",,").bits() == graph::PassSet().bits());
  CHECK(graph::PassSet("all").bits() == graph::PassSet().bits());
  const auto f = [](const Tensor& x) { return x.exp() + 1; };
  CHECK_THROWS_AS(compile(f, CompileMode::Always, -1), ValueError);
  auto huge = compile(f, CompileMode::Always, std::numeric_limits<int64_t>::max());
  for (int i = 0; i < 3; ++i) CHECK(huge(zeros({5}))[0].item<float>() == 2);
}

TEST_CASE("faults: functions that are empty, sealed twice, sealed inside, and destroyed inside") {
  const NoGradGuard off;
  CHECK_THROWS_AS(compile(std::function<Tensor(Tensor)>()), ValueError);
  CHECK_THROWS_AS(compile(static_cast<Tensor (*)(const Tensor&)>(nullptr)), ValueError);

  auto twice = compile([](const Tensor& x) { return x + 1; }).seal();
  for (int i = 0; i < 3; ++i) twice(ones({2}));
  twice.seal();
  for (int i = 0; i < 3; ++i) CHECK(twice(full({2}, 1.0 * i)).equal(full({2}, i + 1.0)));

  using Function = std::function<Tensor(const Tensor&)>;
  std::optional<Compiled<Function>> inside;
  inside.emplace(compile(Function([&](const Tensor& x) {
    if (!inside->is_sealed()) inside->seal();  // from the next call on
    return x * 2;
  })));
  for (int i = 0; i < 4; ++i) CHECK((*inside)(full({2}, 1.0 * i)).equal(full({2}, 2.0 * i)));

  std::optional<Compiled<Function>> again;  // sealed anew in a sealed call
  again.emplace(compile(Function([&](const Tensor& x) {
    again->seal();
    return x * 2;
  })));
  again->seal();
  for (int i = 0; i < 6; ++i) CHECK((*again)(full({2}, 1.0 * i)).equal(full({2}, 2.0 * i)));

  std::optional<Compiled<Function>> gone;  // another copy runs on
  gone.emplace(Function([&](const Tensor& x) {
                 gone.reset();
                 return x + 1;
               }),
               CompileOptions{.mode = CompileMode::Always});
  Compiled<Function> copy = *gone;
  CHECK(copy(ones({2})).equal(full({2}, 2.0)));
  CHECK(copy(ones({2})).equal(full({2}, 2.0)));
}

TEST_CASE("faults: a function that captures something new in each call tells it once") {
  const LazyGuard outermost(false);
  std::ostringstream told;
  std::streambuf* const before = std::cerr.rdbuf(told.rdbuf());
  auto f = compile([](const Tensor& x) { return x * 2 + 1; }, CompileMode::Always);
  for (int64_t n = 1; n <= 3 * detail::kMostNewInARow; ++n) {
    CHECK(f(ones({n})).equal(full({n}, 3)));
    if (n == detail::kMostNewInARow - 1) CHECK(told.str().empty());
  }
  std::cerr.rdbuf(before);
  const std::string text = told.str(), warning = "pellucid: warning: ";
  CHECK(text.starts_with(warning));
  CHECK(text.find(warning, 1) == std::string::npos);
  // Its line is tested where the library is one (tests/package): here all code is.
  CHECK(f.report().new_in_a_row == 3 * detail::kMostNewInARow);
  CHECK(f.report().text().find("each of the last 192 captures was new") != std::string::npos);
  f(ones({5}));
  CHECK(f.report().new_in_a_row == 0);
}

TEST_CASE("faults: other sizes in each call give the right results and leave nothing") {
  const LazyGuard outermost(false);  // in a lazy process, what came before is no part of a program
  const NoGradGuard off;
  const auto f = [](const Tensor& x) { return (x * 2 + 1).exp().sum() + x.mean(); };
  auto fast = compile(f, CompileMode::Always);
  ProgramCache::get().clear();
  const int64_t before = memory_stats().allocated, built = ProgramCache::get().built();
  for (int64_t n = 1; n <= 2'000; ++n) {
    const Tensor x = full({n}, 0.25);
    REQUIRE(fast(x).equal(f(x)));
  }
  CHECK(ProgramCache::get().built() == built);  // nothing was made for sizes that did not come back
  CHECK(ProgramCache::get().size() == ProgramCache::kMost);
  for (int64_t n = 1; n <= 10'000; ++n) {  // 10,000 programs, one after the other
    const Tensor x = full({n % 50 + 1, n / 50 + 1}, 0.25);
    for (int i = 0; i < 2; ++i) fast(x);
    if (n % 100 == 0) REQUIRE(ProgramCache::get().size() <= ProgramCache::kMost);
  }
  CHECK(ProgramCache::get().built() - built == 10'000);
  ProgramCache::get().clear();
  CHECK(memory_stats().allocated == before);
}

TEST_CASE("faults: 16 threads compile, run, seal and read each other's pending tensors") {
  constexpr size_t kThreads = 16;
  const Tensor w = rand({8, 8});
  const auto f = [&](const Tensor& x) { return (matmul(x, w) * 2 + 1).relu().sum(1); };
  auto shared = compile(f, CompileMode::Always), sealed = compile(f), measured = compile(f);
  sealed.seal();
  const Program program =
      trace([&](const Tensors& in) { return Tensors{f(in[0])}; }, {{"x", zeros({8, 8})}});
  std::vector<std::thread> threads;
  std::vector<int> wrong(kThreads, 0);
  Tensors left(kThreads);  // pending when their threads end
  Tensors handed(kThreads);
  std::latch all_handed(kThreads);
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const NoGradGuard off;
      const Tensor x = full({8, 8}, static_cast<double>(t + 1));
      const Tensor expected = [&] {
        const LazyGuard at_once(false);
        return f(x);
      }();
      auto own = compile([&](const Tensor& in) { return f(in) + static_cast<double>(t); },
                         CompileMode::Always);
      for (int i = 0; i < 6; ++i) {
        wrong[t] += !shared(x).equal(expected);
        wrong[t] += !sealed(x).equal(expected);
        wrong[t] += !measured(x).equal(expected);
        wrong[t] += !own(x).equal(expected + static_cast<double>(t));
        wrong[t] += !program.run(Tensors{x})[0].equal(expected);
      }
      const LazyGuard lazy;
      handed[t] = f(x) * 3;
      left[t] = f(x) - 1;
      all_handed.arrive_and_wait();
      const Tensor other = handed[(t + 1) % kThreads];  // another thread's
      wrong[t] += !(other / 3 * 3).isfinite().all().item<bool>();
      wrong[t] += !handed[t].equal(expected * 3);
      // Changes in place on each thread ask no other thread.
      const Tensor mine = zeros({4});
      for (int i = 0; i < 50; ++i) mine.add_(1);
      wrong[t] += mine[0].item<float>() != 50;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(kThreads, 0));
  for (size_t t = 0; t < kThreads; ++t)
    CHECK(left[t].equal(f(full({8, 8}, static_cast<double>(t + 1))) - 1));
}

}  // namespace
}  // namespace pellucid
