// Weights that convolutions keep in another order from one call to the next (tensor/weights.h): the
// same bits as without, whatever happened to the weights in between.
#include "tensor/weights.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "base/allocator.h"
#include "convolutions.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"
#include "pellucid/program.h"
#include "tensor/storage.h"

namespace pellucid {
namespace {

using detail::held_bytes;
using detail::held_found;
using test::Convolution;
using test::convolutions;

bool agree(const Tensor& a, const Tensor& b) { return a.equal(b); }

// With weights that nobody has seen before, nothing can be kept.
Tensor with_new_weights(const Convolution& c, const Tensor& x, const Tensor& w) {
  const LazyGuard at_once(false);
  const NoGradGuard off;
  return c.f(x, w.detach().clone());
}

// Calls of the same weights in all the ways that a program has.
struct Ways {
  explicit Ways(const Convolution& c, const Tensor& w, const Tensor& x)
      : eager([&c, w](const Tensor& t) { return c.f(t, w); }),
        lazy([&c, w](const Tensor& t) {
          const LazyGuard on;
          Tensor y = c.f(t, w) + 0;
          eval();
          return y;
        }),
        compiled([f = std::make_shared<Compiled<Function>>(
                      compile(Function([&c, w](const Tensor& t) { return (c.f(t, w) + 1) - 1; }),
                              CompileMode::Always))](const Tensor& t) { return (*f)(t); }),
        traced([p = std::make_shared<Program>(trace(
                    [&c, w](const Tensors& in) { return Tensors{c.f(in[0], w)}; }, {{"x", x}}))](
                   const Tensor& t) {
          return p->run({{"x", t}})[0];
        }) {
    sealed_ = std::make_shared<Compiled<Function>>(
        compile(Function([&c, w](const Tensor& t) { return c.f(t, w); })));
    sealed_->seal();
    sealed = [s = sealed_](const Tensor& t) { return (*s)(t); };
  }
  using Function = std::function<Tensor(const Tensor&)>;
  Function eager, lazy, compiled, traced, sealed;

 private:
  std::shared_ptr<Compiled<Function>> sealed_;
};

struct Change {
  const char* name;
  std::function<void(Tensor&)> apply;
  bool other_tensor = false;  // a program that was traced with it says so, and is made again
};

std::vector<Change> changes() {
  const auto own = [](const Tensor& w) { return rand(w.sizes()).to(w.dtype()); };
  return {
      {"an op in place", [](Tensor& w) { w.mul_(2); }},
      {"copy_", [own](Tensor& w) { w.copy_(own(w)); }},
      {".data", [](Tensor& w) { w.data().add_(1); }},
      {"a detached tensor", [](Tensor& w) { w.detach().mul_(-1); }},
      {"a view", [](Tensor& w) { w.select(0, 0).fill_(3); }},
      {"a part of a view", [](Tensor& w) { w.transpose(0, 1).slice(1, 1, 3).zero_(); }},
      {"a view of .data", [](Tensor& w) { w.data().select(0, 1).fill_(0.5); }},
      {"a captured call",
       [](Tensor& w) {
         const LazyGuard on;
         w.add_(1);
         eval();
       }},
      {"captured calls as a group",
       [](Tensor& w) {
         const LazyGuard on;
         w.add_(1).mul_(0.5).tanh_();
         eval();
       }},
      {"a program",
       [](Tensor& w) {
         auto f = compile([w]() mutable { return w.mul_(1.25).sum(); }, CompileMode::Always);
         for (int i = 0; i < 4; ++i) f();
       }},
      {"a sealed function",
       [](Tensor& w) {
         auto f = compile([w]() mutable { return w.data().mul_(1.25).sum(); });
         f.seal();
         for (int i = 0; i < 4; ++i) f();
       }},
      {"an optimiser",
       [](Tensor& w) {
         w.requires_grad_();
         {
           const AutoGradMode on(true);
           (w * w).sum().backward();
         }
         optim::SGD(Tensors{w}, optim::SGDOptions(0.5)).step();
         w.mutable_grad() = Tensor();
         w.requires_grad_(false);
       },
       true},
      {"a random op", [](Tensor& w) { w.uniform_(); }},
      {"an op that throws",
       [](Tensor& w) {
         w.zero_();
         CHECK_THROWS(w.index_fill_(0, tensor({int64_t{0}, int64_t{1000}}), 7));
       }},
      {"set_data", [own](Tensor& w) { w.set_data(own(w)); }, true},
      {"a pointer",
       [](Tensor& w) {
         auto* const at = static_cast<char*>(w.data_ptr());
         for (int64_t i = 0; i < 4; ++i) std::swap(at[i], at[w.nbytes() - 4 + i]);
       }},
      {"a pointer from before",
       [at = std::make_shared<char*>()](Tensor& w) {
         if (!*at) *at = static_cast<char*>(w.data_ptr());
         std::swap((*at)[2], (*at)[w.nbytes() - 2]);
       }},
  };
}

TEST_CASE("held weights: any change of them is seen, by every kind of convolution in every way") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  for (const Convolution& c : convolutions()) {
    for (const bool channels_last : {false, true}) {
      if (channels_last && c.weight.size() != 4) continue;
      CAPTURE(c.name);
      CAPTURE(channels_last);
      manual_seed(3);
      const Tensor x = rand(c.input).to(c.dtype);
      Tensor w = rand(c.weight).to(c.dtype);
      if (channels_last) w = w.contiguous(MemoryFormat::ChannelsLast);
      const auto run = [&](const Ways& ways) {
        for (int round = 0; round < 3; ++round) {
          const Tensor expected = with_new_weights(c, x, w);
          CHECK(agree(ways.eager(x), expected));
          CHECK(agree(ways.lazy(x), expected + 0));
          CHECK(agree(ways.compiled(x), (expected + 1) - 1));
          CHECK(agree(ways.traced(x), expected));
          CHECK(agree(ways.sealed(x), expected));
        }
      };
      auto ways = std::make_unique<Ways>(c, w, x);
      run(*ways);
      for (const Change& change : changes()) {
        CAPTURE(change.name);
        change.apply(w);
        if (change.other_tensor) ways = std::make_unique<Ways>(c, w, x);
        run(*ways);
      }
    }
  }
}

TEST_CASE(
    "held weights: every kind of convolution keeps them, where the kernel wants another order") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  for (const Convolution& c : convolutions()) {
    CAPTURE(c.name);
    const int64_t before = held_bytes();
    const Tensor x = rand(c.input).to(c.dtype);
    {
      const Tensor w = rand(c.weight).to(c.dtype);
      for (int i = 0; i < 2; ++i) c.f(x, w);
      const int64_t held = held_bytes() - before, found = held_found();
      c.f(x, w);
      // The plain order is what some primitives read.
      CHECK((held > 0) == (held_found() > found));
      const bool own_kernel = c.dtype == kFloat64;
      if (own_kernel) CHECK(held > 0);
      c.f(x, w);
      CHECK(held_bytes() - before == held);
    }
    CHECK(held_bytes() == before);  // they go with the weights
  }
}

TEST_CASE("held weights: training holds nothing, and memory is counted") {
  const LazyGuard outermost(false);
  nn::Conv2d conv(nn::Conv2dOptions(8, 16, 3));
  conv->to(kFloat64);
  const Tensor x = rand({2, 8, 9, 9}, kFloat64);
  const int64_t before = held_bytes();
  const auto packed = [] {
    return memory_stats().by_category[static_cast<size_t>(MemoryCategory::Packed)];
  };
  const int64_t packed_before = packed();
  optim::SGD sgd(conv->parameters(), optim::SGDOptions(0.1));
  auto step = [&] {
    const Tensor loss = conv->forward(x).square().mean();
    loss.backward();
    sgd.step();
    sgd.zero_grad();
    return loss.detach();
  };
  auto compiled = compile(step, CompileMode::Always);
  for (int i = 0; i < 3; ++i) {
    step();
    compiled();
  }
  CHECK(held_bytes() == before);
  {
    const NoGradGuard off;
    for (int i = 0; i < 3; ++i) conv->forward(x);
  }
  CHECK(held_bytes() - before == 16 * 8 * 9 * 8);
  CHECK(packed() - packed_before == held_bytes() - before);
  step();
  CHECK(held_bytes() == before);
  CHECK(packed() == packed_before);
}

TEST_CASE("held weights: load_state_dict is seen") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  nn::Conv2d conv(nn::Conv2dOptions(8, 16, 3).bias(false)),
      other(nn::Conv2dOptions(8, 16, 3).bias(false));
  const Tensor x = rand({2, 8, 9, 9});
  auto f = compile([&](const Tensor& t) { return conv->forward(t); }, CompileMode::Always);
  for (int i = 0; i < 4; ++i) f(x), conv->forward(x);
  conv->load_state_dict(other->state_dict());
  const Tensor expected = other->forward(x);
  CHECK(agree(conv->forward(x), expected));
  CHECK(agree(f(x), expected));
}

TEST_CASE("held weights: what was not used for longest goes first") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const int64_t each = 16 * 8 * 9 * 8;
  struct Least {
    Least() { detail::most_held_bytes = held_bytes() + 3 * each; }
    ~Least() { detail::most_held_bytes = detail::kMostHeldBytes; }
  } const least;
  const int64_t before = held_bytes();
  const Tensor x = rand({1, 8, 6, 6}, kFloat64);
  Tensors weights;
  for (int i = 0; i < 5; ++i) weights.push_back(rand({16, 8, 3, 3}, kFloat64));
  for (const Tensor& w : weights)
    for (int i = 0; i < 3; ++i) {
      conv2d(x, w);
      CHECK(held_bytes() - before <= 3 * each);
    }
  CHECK(held_bytes() - before == 3 * each);
  int64_t found = held_found();
  conv2d(x, weights[4]);
  conv2d(x, weights[2]);
  CHECK(held_found() == found + 2);
  conv2d(x, weights[0]);  // in the place of weights[3]
  found = held_found();
  conv2d(x, weights[3]);
  CHECK(held_found() == found);
  for (const Tensor& w : weights) CHECK(agree(conv2d(x, w), conv2d(x, w.clone())));
}

TEST_CASE("held weights: they go before an allocation fails") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const int64_t before = held_bytes();
  const Tensor x = rand({1, 256, 7, 7}, kFloat64), w = rand({512, 256, 7, 7}, kFloat64);
  for (int i = 0; i < 3; ++i) conv2d(x, w);
  const int64_t bytes = w.numel() * 8;
  REQUIRE(held_bytes() - before == bytes);
  empty_cache();
  struct Limit {
    explicit Limit(int64_t limit) { set_memory_limit(limit); }
    ~Limit() { set_memory_limit(0); }
  };
  {
    const MemoryStats now = memory_stats();
    const Limit limit(now.reserved + bytes);
    const int64_t wanted = now.reserved + bytes - now.allocated + bytes / 2;
    const Tensor large = empty({wanted}, kUInt8);
    CHECK(held_bytes() == 0);
    CHECK_THROWS_AS(empty({4 * bytes}, kUInt8), OutOfMemoryError);
  }
  CHECK(agree(conv2d(x, w), conv2d(x, w.clone())));
}

TEST_CASE("held weights: allocations that fail leave nothing wrong") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  for (const Convolution& c : convolutions()) {
    CAPTURE(c.name);
    const Tensor x = rand(c.input).to(c.dtype), w = rand(c.weight).to(c.dtype);
    const Tensor expected = with_new_weights(c, x, w);
    auto f = compile([&](const Tensor& t) { return c.f(t, w); }, CompileMode::Always);
    for (int64_t n = 1; n < 200; ++n) {
      CAPTURE(n);
      w.mul_(1);  // so that they are packed anew
      int failed = 0;
      for (int i = 0; i < 4; ++i) {
        if (i > 0) set_allocation_failure(n);
        Tensor y;
        try {
          y = i % 2 ? f(x) : c.f(x, w);
        } catch (const OutOfMemoryError&) { ++failed; }
        set_allocation_failure(0);
        if (y.defined()) CHECK(agree(y, expected));
        CHECK(agree(c.f(x, w), expected));
      }
      if (failed == 0) break;
      REQUIRE(n < 199);
    }
  }
}

TEST_CASE("held weights: several threads run one program while its weights are held") {
  const LazyGuard outermost(false);
  const Convolution c = convolutions()[0];
  const Tensor w = rand(c.weight);
  Tensors inputs, expected;
  auto f = compile([&](const Tensor& t) { return c.f(t, w).relu() * 0.5; }, CompileMode::Always);
  for (int i = 0; i < 4; ++i) inputs.push_back(rand(c.input));
  for (int round = 0; round < 3; ++round) {
    const NoGradGuard off;
    w.mul_(1.5);
    expected.clear();
    for (const Tensor& x : inputs) expected.push_back(with_new_weights(c, x, w).relu() * 0.5);
    std::vector<std::thread> threads;
    threads.reserve(4);
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const NoGradGuard off_here;
        for (int i = 0; i < 6; ++i) {
          const auto k = static_cast<size_t>((t + i) % 4);
          const Tensor y = i % 3 == 2 ? c.f(inputs[k], w).relu() * 0.5 : f(inputs[k]);
          if (!y.equal(expected[k])) ++wrong;
        }
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("held weights: a storage that others can change is never held") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const int64_t before = held_bytes();
  const Tensor x = rand({1, 8, 6, 6}, kFloat64);
  std::vector<double> memory(16 * 8 * 9, 0.5);
  const Tensor borrowed = from_blob(memory.data(), {16, 8, 3, 3}, kFloat64);
  const Tensor shared = rand({16, 8, 3, 3}, kFloat64), exported = rand({16, 8, 3, 3}, kFloat64);
  for (int i = 0; i < 3; ++i) conv2d(x, shared), conv2d(x, exported);
  CHECK(held_bytes() > before);
  detail::share_storage(*shared.impl().storage);
  const detail::ExportedStorage look(exported.impl().storage);
  CHECK(held_bytes() == before);
  for (int i = 0; i < 3; ++i) {
    conv2d(x, borrowed), conv2d(x, shared), conv2d(x, exported);
    memory[0] += 1;
    CHECK(agree(conv2d(x, borrowed), conv2d(x, borrowed.clone())));
  }
  CHECK(held_bytes() == before);
}

}  // namespace
}  // namespace pellucid
