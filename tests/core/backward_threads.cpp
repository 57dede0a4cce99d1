// Two threads in one graph: backward through the same nodes, with and without keeping it, beside
// hooks that come and go, graphs that end, and gradients that are read.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <thread>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using autograd::variable_list;

namespace {

constexpr int kThreads = 3, kRounds = 30;

/// Runs f(thread) on several threads that begin together.
template <class F> void on_threads(const F& f) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  for (std::thread& t : threads) t.join();
}

struct Square : autograd::Function<Square> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(autograd::AutogradContext* ctx, variable_list g) {
    ctx->saved_data["runs"] = Value(int64_t{1});  // a function may keep what it likes there
    return {g[0] * ctx->get_saved_variables()[0] * 2};
  }
};

/// A graph with saved tensors, a custom function, an in-place change of a view and a checkpoint.
Tensor loss_of(const Tensor& w) {
  const Tensor h = Square::apply((w * w).tanh());
  const Tensor y = h * 1;
  y.slice(0, 0, 2).mul_(3);
  const auto block = [](const variable_list& in) {
    return variable_list{dropout_train(in[0], 0.5).exp() * in[0]};
  };
  return (autograd::checkpoint(block, {y})[0] + y.relu()).sum();
}

}  // namespace

TEST_CASE("threads: a graph that is kept gives each backward the same gradient") {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor w = rand({6}, kFloat64).requires_grad_();
    const Tensor loss = loss_of(w);
    const Tensor once = autograd::grad({loss}, {w}, {}, true)[0];
    on_threads([&](int t) {
      if (t == 0)
        CHECK(equal(autograd::grad({loss}, {w}, {}, true)[0], once));
      else
        loss.backward({}, true);
    });
    CHECK(allclose(w.grad(), once * (kThreads - 1)));
  }
}

TEST_CASE("threads: a graph that one backward frees gives the others their gradient or an error") {
  std::atomic<int> right{0};
  for (int round = 0; round < kRounds; ++round) {
    const Tensor w = rand({6}, kFloat64).requires_grad_();
    const Tensor loss = loss_of(w);
    const Tensor once = autograd::grad({loss}, {w}, {}, true)[0];
    on_threads([&](int) {
      Tensor g;
      std::string message;
      try {
        g = autograd::grad({loss}, {w})[0];
      } catch (const AutogradError& e) { message = e.what(); }
      if (g.defined()) {
        CHECK(equal(g, once));
        ++right;
      } else {
        CHECK(message.find("retain_graph") != std::string::npos);
      }
    });
  }
  CHECK(right >= 1);
}

TEST_CASE("threads: graphs of gradients over shared leaves") {
  const Tensor w = ones({4}, kFloat64).requires_grad_(), g = ones({}, kFloat64).requires_grad_();
  on_threads([&](int) {
    for (int i = 0; i < kRounds; ++i) (w * w).sum().backward(g, true, true);
  });
  CHECK(equal(w.grad().detach(), full({4}, 2.0 * kThreads * kRounds, kFloat64)));
  w.mutable_grad().reset();  // the graph of the gradient holds w
}

TEST_CASE("threads: hooks come and go while others run backward") {
  const Tensor w = ones({4}, kFloat64).requires_grad_();
  const Tensor y = w * 2, loss = (y * y).sum();
  std::atomic<int> seen{0};
  on_threads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      if (t > 0) {
        loss.backward({}, true);
        continue;
      }
      const auto look = [&](const Tensor&) {
        ++seen;
        return Tensor();
      };
      const unsigned a = w.register_hook(look), b = y.register_hook(look);
      const uint64_t c = loss.grad_fn()->add_post_hook([&](const auto&, const auto&) {
        ++seen;
        return variable_list();
      });
      y.retain_grad();
      w.remove_hook(a);
      y.remove_hook(b);
      loss.grad_fn()->remove_hook(c);
    }
  });
  CHECK(equal(w.grad(), full({4}, 8.0 * (kThreads - 1) * kRounds, kFloat64)));
}

TEST_CASE("threads: a graph ends on one thread while another walks it") {
  const Tensor w = ones({4}, kFloat64).requires_grad_();
  const Tensor shared = (w * 2).exp();
  on_threads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      Tensor own = (shared * (t + 1.0)).sum();
      if (t == 0) continue;  // dropped
      autograd::NodeRef node = own.grad_fn();
      own.reset();
      while (node && !node->next_edges().empty()) {
        for (const autograd::SavedInfo& s : node->saved_tensors()) CHECK(s.tensor.defined());
        autograd::NodeRef next = node->next_edge(0).function;
        node = next;
      }
      shared.sum().backward({}, true);
    }
  });
  CHECK(w.grad().defined());
}

TEST_CASE("threads: a view whose base changed gets one history for all threads") {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor w = rand({6}, kFloat64).requires_grad_();
    const Tensor base = w * 1, view = base.slice(0, 0, 3);
    const Tensor plain = zeros({6}, kFloat64), part = plain.slice(0, 3, 6);  // no history yet
    base.mul_(2);
    plain.add_(w);
    std::array<autograd::NodeRef, kThreads> view_fn, part_fn;
    on_threads([&](int t) {
      CHECK(part.requires_grad());
      ((view + part) * view).sum().backward({}, true);
      const auto at = static_cast<size_t>(t);
      view_fn[at] = view.grad_fn();
      part_fn[at] = part.grad_fn();
    });
    for (size_t t = 1; t < kThreads; ++t) {
      CHECK(view_fn[t] == view_fn[0]);
      CHECK(part_fn[t] == part_fn[0]);
    }
    // y = (2a + b) * 2a: dy/da = 8a + 2b, dy/db = 2a.
    const Tensor a = w.detach().slice(0, 0, 3), b = w.detach().slice(0, 3, 6);
    CHECK(allclose(w.grad(), cat({a * 8 + b * 2, a * 2}) * kThreads));
  }
}

TEST_CASE("threads: a gradient is retained once, whoever asks for it") {
  for (int round = 0; round < kRounds; ++round) {
    const Tensor w = ones({4}, kFloat64).requires_grad_();
    const Tensor base = w * 1, view = base.slice(0, 0, 2);
    base.mul_(2);
    on_threads([&](int) { view.retain_grad(); });
    view.sum().backward();
    CHECK(equal(view.grad(), ones({2}, kFloat64)));
    CHECK(view.grad_fn()->extras().retain_grad[view.output_nr()].size() == 1);
  }
}

TEST_CASE("threads: a layout that an op chose is looked at by one thread and read by the others") {
  const Tensor plain = rand({2, 8, 6, 6});
  const Tensor positive = plain.relu(), sum = plain + plain;
  for (int round = 0; round < 5 * kRounds; ++round) {
    const Tensor y = plain.contiguous(MemoryFormat::ChannelsLast).clone();
    y.impl().hidden_layout = true;  // as conv2d leaves it
    on_threads([&](int t) {
      if (t == 0)
        CHECK(y.strides() == plain.strides());
      else if (t == 1)
        CHECK(equal(y.relu(), positive));
      else
        CHECK(equal(y + y, sum));
    });
    CHECK(equal(y, plain));
  }
}

TEST_CASE("threads: one module in several threads") {
  manual_seed(1);
  nn::Sequential net(nn::Conv2d(1, 4, 3), nn::ReLU(), nn::Flatten(), nn::Linear(4 * 16, 3));
  const Tensor x = rand({2, 1, 6, 6});
  net->forward(x).sum().backward();
  const Tensor once = net->parameters()[0].grad().clone();
  net->zero_grad();
  on_threads([&](int) {
    for (int i = 0; i < 5; ++i) net->forward(x).sum().backward();
  });
  CHECK(allclose(net->parameters()[0].grad(), once * (5.0 * kThreads), 1e-4, 1e-4));
}
