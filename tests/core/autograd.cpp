// What gradients mean: accumulation, orders, guards, hooks, in-place changes, views.
#include "pellucid/autograd.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "pellucid/graph.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using autograd::grad;

namespace {

Tensor leaf(double v) { return full({}, v, kFloat64).requires_grad_(); }
double item(const Tensor& t) { return t.item<double>(); }

bool mentions(const std::function<void()>& f, std::string_view words) {
  try {
    f();
  } catch (const Error& e) {
    INFO(e.what());
    CHECK(std::string_view(e.what()).find(words) != std::string_view::npos);
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a tensor used twice gets both gradients") {
  const Tensor x = leaf(3);
  (x * x + x).backward();
  CHECK(item(x.grad()) == 7);
}

TEST_CASE("gradients accumulate until they are zeroed") {
  const Tensor x = leaf(2);
  (x * 3).backward();
  (x * 4).backward();
  CHECK(item(x.grad()) == 7);
  x.zero_grad(false);
  CHECK(item(x.grad()) == 0);
  x.zero_grad();
  CHECK(!x.grad().defined());
}

TEST_CASE("the third derivative of x^3 at 2 is 6") {
  const Tensor x = leaf(2);
  const Tensor y = x.pow(3);
  const Tensor first = grad({y}, {x}, {}, true, true)[0];
  const Tensor second = grad({first}, {x}, {}, true, true)[0];
  const Tensor third = grad({second}, {x}, {}, true, true)[0];
  CHECK(item(first) == doctest::Approx(12));
  CHECK(item(second) == doctest::Approx(12));
  CHECK(item(third) == doctest::Approx(6));
}

TEST_CASE("the small graph of the mission") {
  const Tensor x = leaf(2);
  const Tensor a = x.pow(2), b = sin(a), c = exp(b), y = c * x;
  y.backward();
  CHECK(item(a) == 4);
  CHECK(item(b) == doctest::Approx(-0.7568).epsilon(1e-4));
  CHECK(item(c) == doctest::Approx(0.4692).epsilon(1e-3));
  CHECK(item(y) == doctest::Approx(0.9383).epsilon(1e-4));
  CHECK(item(x.grad()) == doctest::Approx(-1.9842).epsilon(1e-4));
}

TEST_CASE("broadcasting is undone in the gradient") {
  const Tensor w = ones({3, 1}, kFloat64).requires_grad_(),
               v = ones({4}, kFloat64).requires_grad_();
  (w * v).sum().backward();
  CHECK(w.grad().sizes() == IntArrayRef{3, 1});
  CHECK(v.grad().sizes() == IntArrayRef{4});
  CHECK(item(w.grad().sum()) == 12);
  CHECK(v.grad()[0].item<double>() == 3);
}

TEST_CASE("backward through a freed graph says how to keep it") {
  const Tensor x = leaf(2);
  const Tensor y = x * x;
  y.backward();
  CHECK(mentions([&] { y.backward(); }, "retain_graph = true"));
  const Tensor z = x * x;
  z.backward({}, true);
  CHECK_NOTHROW(z.backward());
  CHECK(item(x.grad()) == 12);
}

TEST_CASE("no graph is kept where it is not wanted") {
  const Tensor x = leaf(2);
  {
    const NoGradGuard off;
    CHECK(!(x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
  CHECK(!x.detach().requires_grad());
  CHECK(!(x > 1).requires_grad());
  {
    const InferenceMode on;
    const Tensor y = x * x;
    CHECK(y.is_inference());
  }
  const Tensor made = [] {
    const InferenceMode on;
    return ones({2});
  }();
  const Tensor w = ones({2}).requires_grad_();
  CHECK(mentions([&] { (made * w).sum(); }, "inference mode"));
}

TEST_CASE("errors of backward name the remedy") {
  CHECK(mentions([] { ones({}).backward(); }, "requires_grad_()"));
  CHECK(mentions([] { (ones({2}).requires_grad_() * 2).backward(); }, "Reduce it first"));
  const Tensor x = leaf(1), y = leaf(1);
  CHECK(mentions([&] { grad({x * 2}, {y}); }, "allow_unused = true"));
  CHECK(!grad({x * 2}, {y}, {}, {}, false, true)[0].defined());
  CHECK(mentions([&] { ones({2}, kInt64).requires_grad_(); }, "only floating tensors"));
}

TEST_CASE("grad touches no .grad and stops at its inputs") {
  const Tensor x = leaf(2);
  const Tensor h = x * 3, y = h * h;
  CHECK(item(grad({y}, {h}, {}, true)[0]) == 12);
  CHECK(!x.grad().defined());
  CHECK(item(grad({y}, {x})[0]) == 36);
  CHECK(!x.grad().defined());
}

TEST_CASE("hooks see gradients and may replace them") {
  const Tensor x = leaf(2);
  const Tensor h = x * 3;
  double seen = 0;
  h.register_hook([&](Tensor g) { seen = item(g); });
  const unsigned doubled = x.register_hook([](Tensor g) { return g * 2; });
  (h * 5).backward();
  CHECK(seen == 5);
  CHECK(item(x.grad()) == 30);
  x.remove_hook(doubled);
  x.zero_grad();
  (x * 3).backward();
  CHECK(item(x.grad()) == 3);

  const Tensor y = x * 4;
  int calls = 0;
  y.grad_fn()->register_hook(
      [&](const autograd::variable_list& in, const autograd::variable_list& out) {
        ++calls;
        CHECK(item(out[0]) == 1);
        CHECK(item(in[0]) == 4);
        return autograd::variable_list();
      });
  y.grad_fn()->register_prehook([&](const autograd::variable_list&) {
    ++calls;
    return autograd::variable_list();
  });
  y.backward();
  CHECK(calls == 2);
}

TEST_CASE("a hook on a leaf sees the whole gradient once") {
  const Tensor x = leaf(2);
  int calls = 0;
  x.register_hook([&](Tensor g) {
    ++calls;
    CHECK(item(g) == 7);
  });
  (x * 3 + x * 4).backward();
  CHECK(calls == 1);
}

TEST_CASE("retain_grad keeps the gradient of a tensor that is no leaf") {
  const Tensor x = leaf(2);
  const Tensor h = x * 3;
  h.retain_grad();
  (h * h).backward();
  CHECK(item(h.grad()) == 12);
  CHECK(!h.is_leaf());
  CHECK(x.is_leaf());
}

TEST_CASE("retain_grad: the tensor may go before backward, and is followed when it is changed") {
  const Tensor x = leaf(2);
  Tensor loss;
  {
    const Tensor h = x * 3;
    h.retain_grad();
    loss = h * h;
  }
  loss.backward();
  CHECK(item(x.grad()) == 36);

  Tensor h = x * 3;
  h.retain_grad();
  h.mul_(2);
  CHECK(h.retains_grad());
  (h * h).backward();
  CHECK(item(h.grad()) == 24);  // by the values after the change

  const Tensor base = ones({2}, kFloat64).requires_grad_() * 1;
  const Tensor view = base.select(0, 1);
  view.retain_grad();
  base.mul_(5);
  (view * 2).backward();
  CHECK(item(view.grad()) == 2);

  Tensor cut = x * 3;
  cut.retain_grad();
  const Tensor before = cut * 1;
  cut.detach_();
  CHECK_FALSE(cut.retains_grad());
  before.backward();
  CHECK_FALSE(cut.grad().defined());
}

TEST_CASE("hooks may take themselves away, and others, while they run") {
  const Tensor x = leaf(2);
  int calls = 0;
  unsigned first = 0, second = 0;
  first = x.register_hook([&](Tensor) {
    ++calls;
    x.remove_hook(first);
    x.remove_hook(second);
    for (int i = 0; i < 20; ++i) x.register_hook([](Tensor) {});
  });
  second = x.register_hook([&](Tensor) { ++calls; });
  (x * 3).backward();
  CHECK(calls == 2);  // those that were there when the gradient came
  (x * 3).backward();
  CHECK(calls == 2);

  const Tensor y = x * 4;
  const auto node = y.grad_fn();
  uint64_t id = 0;
  id = node->add_post_hook([&](const autograd::variable_list&, const autograd::variable_list&) {
    ++calls;
    node->remove_hook(id);
    return autograd::variable_list();
  });
  y.backward({}, true);
  y.backward();
  CHECK(calls == 3);

  const Tensor z = x * 4;
  z.grad_fn()->register_prehook(
      [](const autograd::variable_list&) { return autograd::variable_list(3); });
  CHECK_THROWS_WITH_AS(z.backward(), doctest::Contains("3 gradients where 1"), AutogradError);
}

TEST_CASE("the graph can be walked") {
  const Tensor x = leaf(2);
  x.set_name("x");
  const Tensor y = sin(x) * x;
  const auto node = y.grad_fn();
  REQUIRE(node);
  CHECK(node->name() == "MulBackward0");
  REQUIRE(node->next_edges().size() == 2);
  CHECK(node->next_functions()[0].function->name() == "SinBackward0");
  CHECK(node->next_edge(1).function->name() == "AccumulateGrad");
  CHECK(node->next_edge(1).function->variable().is_same(x));
  CHECK(!x.grad_fn());
}

TEST_CASE("a saved tensor that was changed in place is found and named") {
  const Tensor x = ones({2}, kFloat64).requires_grad_();
  const Tensor h = x * 2, y = h * h;
  h.add_(1);
  CHECK(mentions([&] { y.sum().backward(); }, "mul: a tensor that backward needs"));
  const Tensor e = exp(x);
  e.mul_(2);
  CHECK(mentions([&] { e.sum().backward(); }, "its result"));
}

TEST_CASE("a leaf that requires a gradient cannot be changed in place") {
  const Tensor x = ones({2}).requires_grad_();
  CHECK(mentions([&] { x.add_(1); }, "NoGradGuard"));
  CHECK(mentions([&] { x[0].add_(1); }, "view of a leaf"));
  {
    const NoGradGuard off;
    CHECK_NOTHROW(x.add_(1));
  }
  CHECK(x[0].item<float>() == 2);
}

TEST_CASE("in-place changes take part in the gradient") {
  const Tensor x = ones({3}, kFloat64).requires_grad_();
  const Tensor y = x * 1;
  y.mul_(2).add_(x);
  y.sum().backward();
  CHECK(item(x.grad().sum()) == 9);
}

TEST_CASE("an in-place change of a view changes the history of its base and of other views") {
  const Tensor x = ones({3}, kFloat64).requires_grad_(),
               w = full({}, 5.0, kFloat64).requires_grad_();
  const Tensor base = x * 2;
  const Tensor other = base.slice(0, 0, 2);
  base[1].mul_(w);
  (base.sum() + other.sum() * 10).backward();
  CHECK(x.grad()[0].item<double>() == 22);
  CHECK(x.grad()[1].item<double>() == 110);
  CHECK(x.grad()[2].item<double>() == 2);
  CHECK(item(w.grad()) == 22);

  const Tensor plain = zeros({3}, kFloat64), v = plain[1];
  v.copy_(w);
  CHECK(plain.requires_grad());
  CHECK(v.requires_grad());
  plain.sum().backward();
  CHECK(item(w.grad()) == 23);
}

TEST_CASE("backward frees what was saved as soon as it was used") {
  const Tensor x = ones({1000}, kFloat64).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = sin(y);
  const int64_t before = memory_stats().allocated;
  Tensor loss = y.sum();
  y.reset();
  loss.backward();
  loss.reset();
  CHECK(memory_stats().allocated < before - 40 * 8000);
}

TEST_CASE("a chain of 1,000,000 operations lives and dies in constant stack") {
  const Tensor w = full({}, 1.0, kFloat64).requires_grad_();
  std::thread([&] {  // a thread's stack is small
    Tensor y = w;
    for (int i = 0; i < 1000000; ++i) y = y * w;
    y.backward();
    CHECK(item(w.grad()) == 1000001);
    Tensor z = w;
    for (int i = 0; i < 1000000; ++i) z = z * w;
  })
      .join();
}

TEST_CASE("anomaly mode names the forward call of a bad gradient") {
  const autograd::DetectAnomalyGuard guard;
  const Tensor x = zeros({2}, kFloat64).requires_grad_();
  CHECK(mentions([&] { (sqrt(x) * 0).sum().backward(); }, "SqrtBackward0 returned NaN"));
  x.zero_grad();
  CHECK(mentions([&] { (sqrt(x) * 0).sum().backward(); }, "sqrt(float64[2])"));
}

TEST_CASE("saved-tensor hooks pack and unpack what backward needs") {
  const Tensor x = full({2}, 3.0, kFloat64).requires_grad_();
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    const autograd::SavedTensorsHooks hooks(
        [&](const Tensor& t) -> std::any {
          ++packed;
          return t.to(kFloat32);
        },
        [&](const std::any& a) {
          ++unpacked;
          return std::any_cast<Tensor>(a).to(kFloat64);
        });
    y = (x * x).sum();
  }
  CHECK(packed == 2);
  y.backward();
  CHECK(unpacked == 2);
  CHECK(x.grad()[0].item<double>() == 6);
}

TEST_CASE(
    "checkpoint drops activations and gives the same gradients, bit for bit, with dropout too") {
  const Tensor w = randn({16, 16}).requires_grad_(), x = randn({8, 16}).requires_grad_();
  const auto block = [&](const autograd::variable_list& in) {
    Tensor h = in[0];
    for (int i = 0; i < 4; ++i) h = dropout(relu(matmul(h, w)), 0.5, true);
    return autograd::variable_list{h};
  };
  const auto run = [&](bool checkpointed) {
    manual_seed(3);
    w.zero_grad();
    x.zero_grad();
    const Tensor y = (checkpointed ? autograd::checkpoint(block, {x}) : block({x}))[0];
    y.square().sum().backward();
    return std::pair(w.grad().clone(), x.grad().clone());
  };
  const auto plain = run(false), again = run(true);
  CHECK(equal(plain.first, again.first));
  CHECK(equal(plain.second, again.second));
  CHECK(plain.first.abs().sum().item<double>() > 0);
}

TEST_CASE("a checkpointed function runs twice, however often a gradient reads what was saved") {
  int runs = 0;
  const Tensor w = randn({4, 4}).requires_grad_(), x = randn({4, 4}).requires_grad_();
  const auto block = [&](const autograd::variable_list& in) {
    ++runs;
    return autograd::variable_list{gelu(matmul(in[0], w)) * tanh(in[0])};
  };
  autograd::checkpoint(block, {x})[0].square().sum().backward();
  CHECK(runs == 2);
}

TEST_CASE("two threads may run backward at the same time, on shared leaves too") {
  const Tensor w = ones({100}, kFloat64).requires_grad_();
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) (w * 2).sum().backward();
  };
  std::thread a(work), b(work);
  a.join();
  b.join();
  CHECK(w.grad()[0].item<double>() == 800);
}

TEST_CASE("gradcheck finds a wrong gradient") {
  struct Wrong : autograd::Function<Wrong> {
    static Tensor forward(autograd::AutogradContext* ctx, Tensor x) {
      ctx->save_for_backward({x});
      return x * x;
    }
    static autograd::variable_list backward(autograd::AutogradContext* ctx,
                                            autograd::variable_list g) {
      return {g[0] * ctx->get_saved_variables()[0]};  // should be twice that
    }
  };
  const Tensor x = full({2}, 3.0, kFloat64).requires_grad_();
  const auto f = [](const autograd::variable_list& in) {
    return autograd::variable_list{Wrong::apply(in[0])};
  };
  CHECK(!autograd::gradcheck(f, {x}, 1e-6, 1e-5, 1e-3, false));
  CHECK(mentions([&] { autograd::gradcheck(f, {x}); }, "by backward and"));
}

TEST_CASE("a custom function: saved values, constants, gradients of gradients") {
  struct Scaled : autograd::Function<Scaled> {
    static Tensor forward(autograd::AutogradContext* ctx, Tensor x, double factor) {
      ctx->save_for_backward({x});
      ctx->saved_data["factor"] = factor;
      return x * x * factor;
    }
    static autograd::variable_list backward(autograd::AutogradContext* ctx,
                                            autograd::variable_list g) {
      const double factor = ctx->saved_data["factor"].toDouble();
      return {g[0] * ctx->get_saved_variables()[0] * (2 * factor), Tensor()};
    }
  };
  const Tensor x = full({3}, 2.0, kFloat64).requires_grad_();
  const Tensor y = Scaled::apply(x, 5.0);
  CHECK(y.grad_fn()->name() == "ScaledBackward");
  y.sum().backward({}, true);
  CHECK(x.grad()[0].item<double>() == 20);
  const auto f = [](const autograd::variable_list& in) {
    return autograd::variable_list{Scaled::apply(in[0], 5.0)};
  };
  CHECK(autograd::gradcheck(f, {x}));
  CHECK(autograd::gradgradcheck(f, {x}));
}

TEST_CASE("create_graph: the gradient of a gradient penalty") {
  const Tensor x = full({3}, 2.0, kFloat64).requires_grad_();
  const Tensor y = x.pow(3).sum();
  const Tensor g = grad({y}, {x}, {}, true, true)[0];
  g.square().sum().backward();
  CHECK(x.grad()[0].item<double>() == doctest::Approx(2 * 12 * 12));  // d/dx (3x^2)^2 = 36x^3
}

TEST_CASE("memory: results that a gradient may flow through are activations") {
  const auto activations = [] {
    return memory_stats().by_category[static_cast<size_t>(MemoryCategory::Activation)];
  };
  const Tensor w = ones({1000}).requires_grad_();
  const int64_t before = activations();
  const Tensor kept = w * 2;
  CHECK(activations() - before == 4000);
  {
    const NoGradGuard off;
    const Tensor plain = w * 2;
    CHECK(activations() - before == 4000);
  }
  {
    const MemoryCategoryGuard data(MemoryCategory::Data);  // the program's word counts
    const Tensor chosen = w * 2;
    CHECK(activations() - before == 4000);
  }
  kept.sum().backward();
  CHECK(activations() - before == 4000);  // gradients are not
}
