// Lazy evaluation: what is captured, what makes it run, and that results are those of eager calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/observe.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/profile.h"
#include "pellucid/profiler.h"
#include "same_bits.h"
#include "tensor/pending.h"

namespace pellucid {
namespace {

// The names of the ops that ran while a function did, in order.
template <class F> std::vector<std::string> ops_run(const F& f) {
  std::vector<std::string> names;
  const OpObserver observer([&](const Call& c) { names.emplace_back(c.name()); });
  f();
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("lazy: nothing runs until a value is needed, and then only what it needs") {
  const Tensor x = randn({4, 8}), h = randn({4, 8}), wx = randn({8, 8}), wh = randn({8, 8});
  const Tensor expected = tanh(matmul(x, wx) + matmul(h, wh));
  eval();  // in a program that is lazy as a whole
  Tensor y, other;
  const LazyGuard lazy;
  CHECK(ops_run([&] {
          y = tanh(matmul(x, wx) + matmul(h, wh));
          other = exp(x);
        }).empty());
  CHECK(is_pending(y));
  CHECK(y.sizes() == IntArrayRef({4, 8}));
  CHECK(ops_run([&] { eval(y); }) == Names{"mm", "mm", "add", "tanh"});
  CHECK_FALSE(is_pending(y));
  CHECK(is_pending(other));
  CHECK(ops_run([&] { CHECK(same_bits(y, expected)); }).size() < 5);
  CHECK(is_pending(other));
}

TEST_CASE("lazy: what each reader forces") {
  const auto forced_by = [](const auto& read) {
    const Tensor x = full({3}, 2.0);
    const LazyGuard lazy;
    const Tensor y = x * 3;
    CHECK(is_pending(y));
    read(y);
    return !is_pending(y);
  };
  CHECK(forced_by([](const Tensor& y) { CHECK(y[1].item<float>() == 6); }));
  CHECK(forced_by([](const Tensor& y) { CHECK(y.data_ptr<float>()[2] == 6); }));
  CHECK(forced_by([](const Tensor& y) { CHECK(y.const_data_ptr<float>()[2] == 6); }));
  CHECK(forced_by([](const Tensor& y) { CHECK(y.toString().find('6') != std::string::npos); }));
  CHECK(forced_by([](const Tensor& y) { CHECK(y.equal(full({3}, 6.0))); }));
  CHECK(forced_by([](const Tensor& y) {
    std::thread([&] { CHECK(y.const_data_ptr<float>()[0] == 6); }).join();
  }));
  // Facts are known without values.
  CHECK_FALSE(forced_by([](const Tensor& y) {
    CHECK(y.sizes() == IntArrayRef({3}));
    CHECK(y.strides() == IntArrayRef({1}));
    CHECK(y.view({3, 1}).t().dim() == 2);
    CHECK(y._version() == 0);
    CHECK(y.is_contiguous());
  }));
}

TEST_CASE("lazy: results that nobody can see are not computed") {
  const Tensor x = randn({8});
  eval();
  Tensor kept;
  const Names names = ops_run([&] {
    const LazyGuard eager(false), lazy;
    kept = x + 1;
    { const Tensor dropped = exp(x) * 2; }
    CHECK(is_pending(kept));
  });
  CHECK(names == Names{"add"});
}

TEST_CASE("lazy: changes in place keep their order with what reads before and after") {
  Tensor x = ones({4});
  const LazyGuard lazy;
  const Tensor before = x * 2;
  x.add_(1);
  const Tensor after = x * 2;
  x.mul_(10);
  CHECK(x._version() == 2);
  CHECK(is_pending(x));
  CHECK(after.equal(full({4}, 4.0)));
  CHECK(before.equal(full({4}, 2.0)));
  CHECK(x.equal(full({4}, 20.0)));
}

TEST_CASE("lazy: a view of a pending tensor sees its changes") {
  const Tensor x = zeros({2, 3});
  const LazyGuard lazy;
  Tensor y = x + 1;
  const Tensor row = y[0];
  row.mul_(5);
  y.add_(1);
  CHECK(is_pending(row));
  CHECK(row.equal(full({3}, 6.0)));
  CHECK(y[1].equal(full({3}, 2.0)));
}

TEST_CASE("lazy: what a program writes through a pointer does not reach calls from before") {
  Tensor x = ones({4});
  const LazyGuard lazy;
  const Tensor y = x * 2;
  x.data_ptr<float>()[0] = 100;
  CHECK(y.equal(full({4}, 2.0)));
  const Tensor z = x * 2;  // the pointer is out: it runs at once
  CHECK_FALSE(is_pending(z));
  x.data_ptr<float>()[0] = 7;
  CHECK(z[0].item<float>() == 200);
}

TEST_CASE("lazy: a tensor changed outside of the guard is read as it was") {
  Tensor x = ones({4}), y;
  std::thread other;
  {
    const LazyGuard lazy;
    y = x * 2;
    other = std::thread([&] {
      const LazyGuard eager(false);
      x.add_(1);
    });
    other.join();
    CHECK_FALSE(is_pending(y));
  }
  CHECK(y.equal(full({4}, 2.0)));
}

TEST_CASE("lazy: threads that are lazy keep the order of reads and changes between them") {
  Tensor x = ones({4});
  eval();
  const LazyGuard lazy;
  const Tensor before = x * 2;
  Tensor theirs;
  std::thread([&] {
    LazyGuard also;
    x.add_(1);
    theirs = x * 10;
  }).join();
  const Tensor after = x * 2;
  CHECK(before.equal(full({4}, 2.0)));
  CHECK(after.equal(full({4}, 4.0)));
  CHECK(theirs.equal(full({4}, 20.0)));

  // The guard of the thread ended above. Here both sides are still lazy when the values are read.
  std::atomic<int> stage{0};
  Tensor y = ones({4});
  eval();
  const Tensor old = y + 0;
  std::thread other([&] {
    LazyGuard also;
    y.mul_(3);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  CHECK(is_pending(y));
  CHECK(old.equal(ones({4})));
  CHECK(y.equal(full({4}, 3.0)));
  stage = 2;
  other.join();
}

TEST_CASE("lazy: threads share tensors, and every one gets its own results") {
  const Tensor w = randn({16, 16});
  const Tensor expected = tanh(matmul(w, w)).sum();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  Tensors pending(8);
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        LazyGuard lazy;
        const Tensor y = tanh(matmul(w, w)).sum();
        if (i % 2 == 0) right += same_bits(y, expected);
        if (i == 19) pending[t] = y * 2;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 80);
  for (const Tensor& t : pending) CHECK(same_bits(t, expected * 2));
}

TEST_CASE("lazy: kernels on several threads, of calls that are kept and of eager ones") {
  const Tensor x = rand({600, 700}), v = rand({600}), u = rand({700});
  const auto results = [&](const Tensor& t) {  // these read their tensors inside of the regions
    return Tensors{cumsum(t, 1), addr(t, v, u), linalg_det(t.slice(0, 0, 600).slice(1, 0, 600)),
                   nn::functional::pad(t, nn::functional::PadFuncOptions({1, 1}).mode(kReflect))};
  };
  const Tensors expected = results(x * 2);
  eval();
  Tensor pending;
  Tensors elsewhere, kept;
  {
    const LazyGuard lazy;
    pending = x * 2;
    kept = results(pending * 1);
    std::thread([&] {
      const LazyGuard eager(false);
      CHECK(is_pending(pending));
      elsewhere = results(pending);
    }).join();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(same_bits(elsewhere[i], expected[i]));
    CHECK(same_bits(kept[i], expected[i]));
  }
}

TEST_CASE("lazy: random numbers are those of eager calls, whenever they are drawn") {
  manual_seed(7);
  const Tensor a = randn({5}), b = rand({5}), c = dropout(ones({20}), 0.5, true);
  manual_seed(7);
  const LazyGuard lazy;
  const Tensor p = randn({5}), q = rand({5}), r = dropout(ones({20}), 0.5, true);
  CHECK(is_pending(q));
  CHECK(same_bits(r, c));
  CHECK(same_bits(q, b));
  CHECK(same_bits(p, a));
}

struct Net : nn::Module {
  Net() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 4, 3)));
    norm = register_module("norm", nn::BatchNorm2d(4));
    head = register_module("head", nn::Linear(4 * 3 * 3, 5));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = max_pool2d(relu(norm->forward(conv->forward(x))), 2);
    return head->forward(dropout(y.flatten(1), 0.25, is_training()));
  }
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
};

// Losses and parameters after a few steps of training.
Tensors trained(bool lazily) {
  manual_seed(3);
  Net net;
  optim::AdamW optimizer(net.parameters(), optim::AdamWOptions(1e-2));
  Tensors out;
  for (int step = 0; step < 4; ++step) {
    const LazyGuard lazy(lazily);
    const Tensor x = randn({6, 1, 8, 8}), y = randint(5, {6});
    optimizer.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(net.forward(x), y);
    loss.backward();
    optimizer.step();
    out.push_back(loss.detach());
  }
  for (const Tensor& p : net.parameters()) out.push_back(p.detach().clone());
  for (const Tensor& b : net.buffers()) out.push_back(b.clone());
  return out;
}

TEST_CASE("lazy: a training step has the bits of an eager one") {
  const Tensors eager = trained(false), lazy = trained(true);
  REQUIRE(eager.size() == lazy.size());
  for (size_t i = 0; i < eager.size(); ++i) CHECK_MESSAGE(same_bits(eager[i], lazy[i]), i);
}

TEST_CASE("lazy: higher derivatives, retained graphs and checkpoints") {
  const auto third = [] {
    const Tensor x = full({}, 2.0, kFloat64).requires_grad_();
    Tensor y = x * x * x;
    std::vector<double> out;
    for (int i = 0; i < 3; ++i) {
      y = autograd::grad({y}, {x}, {}, true, true)[0];
      out.push_back(y.item<double>());
    }
    return out;
  };
  const auto checkpointed = [] {
    manual_seed(1);
    const Tensor w = randn({4, 4}).requires_grad_(), x = randn({2, 4});
    const Tensor y =
        autograd::checkpoint([&](const Tensor& in) { return tanh(matmul(in, w)); }, x).sum();
    y.backward({}, true);
    y.backward();
    return w.grad();
  };
  const std::vector<double> eager = third();
  const Tensor expected = checkpointed();
  const LazyGuard lazy;
  CHECK(third() == eager);
  CHECK(eager == std::vector<double>{12, 12, 6});
  CHECK(same_bits(checkpointed(), expected));
}

TEST_CASE("lazy: values that a kernel refuses are refused by the call") {
  const Tensor x = randn({3}), bad = tensor({0, 7});
  const LazyGuard lazy;
  CHECK_THROWS_AS(index_select(x, 0, bad), IndexError);
  CHECK_THROWS_AS(tensor({1, 2}).floor_divide(tensor({0, 1})), Error);
}

TEST_CASE("lazy: guards nest and end in order") {
  const Tensor x = ones({2});
  const LazyGuard outermost(false);
  CHECK_FALSE(LazyGuard::is_enabled());
  {
    const LazyGuard lazy;
    const Tensor y = x + 1;
    {
      const LazyGuard eager(false);
      CHECK_FALSE(LazyGuard::is_enabled());
      CHECK_FALSE(is_pending(y));
      CHECK_FALSE(is_pending(x + 1));
    }
    CHECK(is_pending(x + 1));
  }
  CHECK_FALSE(LazyGuard::is_enabled());
}

TEST_CASE("lazy: memory is taken when calls run, and results of a thread that ended are not lost") {
  const Tensor x = ones({1000});
  Tensor y;
  const int64_t before = memory_stats().allocated;
  std::thread([&] {
    const LazyGuard lazy;
    const Tensor wide = x.expand({1000, 1000}) * 2;
    CHECK(memory_stats().allocated - before < 1'000'000);
    y = wide.sum(0);
    CHECK(is_pending(y));
  }).join();
  CHECK(y.equal(full({1000}, 2000.0)));
}

TEST_CASE("lazy: a call is recorded once, when it runs") {  // its line: tests/package/lines.cpp
  const Tensor x = ones({100});
  eval();
  ProfilerSession session;
  Tensor y;
  const LazyGuard lazy;
  y = exp(x);
  eval(y);
  const profile::Profile p = session.stop();
  int found = 0;
  for (const profile::Event& e : p.events)
    found += p.signatures[static_cast<size_t>(e.signature)].name == "exp";
  CHECK(found == 1);
}

TEST_CASE("lazy: calls that read other values are not taken for repeated ones") {
  Tensor w = ones({100, 100});
  for (int round = 0; round < 3; ++round) {  // the last one replays a program
    eval();
    ProfilerSession session;
    Tensors kept;
    {
      const LazyGuard lazy;
      for (int i = 0; i < 4; ++i) {
        kept.push_back(w.matmul(w));
        w.add_(0.5);
      }
    }
    const profile::Profile p = session.stop();
    std::vector<uint32_t> inputs;
    for (const profile::Event& e : p.events)
      if (p.signatures[static_cast<size_t>(e.signature)].name == "mm" && e.inputs != 0)
        inputs.push_back(e.inputs);
    std::sort(inputs.begin(), inputs.end());
    CHECK(std::adjacent_find(inputs.begin(), inputs.end()) == inputs.end());
  }
}

TEST_CASE("lazy: a call computes in the default dtype of its time") {
  const Tensor x = arange(5);
  const auto below = [&] { return sin(x.to(kInt32)).add(x.lt(0.3).logical_not().exp()); };
  set_default_dtype(kFloat64);
  const Tensor expected = below();
  eval(expected);
  set_default_dtype(kFloat32);
  Tensor y;
  {
    const LazyGuard lazy;
    set_default_dtype(kFloat64);
    y = below();
    set_default_dtype(kFloat32);
  }
  CHECK(same_bits(y, expected));
}

// Whether captures know nothing of a tensor's storage any more.
bool is_forgotten(const Tensor& t) {
  const detail::Storage& s = *t.impl().storage;
  return s.slot == 0 && s.captured == 0 && s.writer == nullptr && s.refs == 1;
}

TEST_CASE("lazy: a tensor in the captures of several threads, each with its own order of use") {
  const Tensor w = full({2}, 3.0), v = full({2}, 5.0);
  auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        Tensor c = a * a + b;
        c.add_(a);
        return Tensors{c, c * b};
      },
      CompileMode::Always);
  std::atomic<int> stage{0};
  Tensor theirs;
  std::thread other([&] {
    const LazyGuard lazy;
    theirs = v - w;  // its capture is the first to know both
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    theirs = theirs * (w * v);
    stage = 3;
    while (stage != 4) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  for (int i = 0; i < 4; ++i) {
    const Tensors a = f(w, v), b = f(v, w), c = f(w, w);
    CHECK(a[0].equal(full({2}, 17.0)));
    CHECK(a[1].equal(full({2}, 85.0)));
    CHECK(b[0].equal(full({2}, 33.0)));
    CHECK(b[1].equal(full({2}, 99.0)));
    CHECK(c[0].equal(full({2}, 15.0)));
    CHECK(c[1].equal(full({2}, 45.0)));
  }
  {
    const LazyGuard lazy;
    const Tensor mine = w + v;  // while the other thread adds to what it has
    stage = 2;
    while (stage != 3) std::this_thread::yield();
    CHECK(theirs.equal(full({2}, 30.0)));
    CHECK(is_pending(mine));
    CHECK(mine.equal(full({2}, 8.0)));
  }
  stage = 4;
  other.join();
  CHECK(is_forgotten(w));
  CHECK(is_forgotten(v));
  CHECK(is_forgotten(theirs));
}

TEST_CASE("lazy: calls are added while another thread makes others run") {
  const Tensor w = full({3}, 1.0);
  constexpr int kCalls = 3000;
  Tensors made(kCalls + 1);
  std::atomic<int> ready{0};
  std::thread adds([&] {
    const LazyGuard lazy;
    Tensor sum = zeros({3});
    for (int i = 0; i < kCalls; ++i) {
      sum = sum + w;
      made[static_cast<size_t>(i)] = sum;
      ready.store(i + 1, std::memory_order_release);
    }
    made[kCalls] = sum * 2;
  });
  int wrong = 0;
  for (int i = 0; i < kCalls; i = ready.load(std::memory_order_acquire)) {
    if (ready.load(std::memory_order_acquire) <= i) continue;
    wrong += made[static_cast<size_t>(i)].equal(full({3}, i + 1.0)) ? 0 : 1;
  }
  adds.join();
  CHECK(wrong == 0);
  CHECK(made.back().equal(full({3}, 2.0 * kCalls)));
  CHECK(is_forgotten(w));
}

TEST_CASE("lazy: parts that run leave what others need, and nothing of themselves") {
  const Tensor x = full({2}, 1.0);
  {
    const LazyGuard lazy;
    Tensor kept = x * 2, changed = zeros({2});
    for (int i = 1; i <= 50; ++i) {
      const Tensor now = x * i, later = now + kept;
      CHECK(now.equal(full({2}, double(i))));  // runs a part; the rest stays
      changed.add_(now);
      if (i % 10 == 0) CHECK(later.equal(full({2}, i + 2.0)));
      if (i % 10 == 5) kept = kept * 1;
    }
    CHECK(changed.equal(full({2}, 1275.0)));
    CHECK(kept.equal(full({2}, 2.0)));
  }
  CHECK(is_forgotten(x));
  CHECK(detail::busy_captures == 0);
}

TEST_CASE("lazy: many calls run by themselves") {
  const LazyGuard lazy;
  Tensor x = zeros({});
  for (int i = 0; i < 70'000; ++i) x = x + 1;
  CHECK(x.item<float>() == 70'000);
}

}  // namespace
}  // namespace pellucid
