// What backward does to save memory traffic: results written into gradients that nobody else can
// see, and parts added to sums in place. Whoever can see a gradient must find it unchanged.
#include "core/vjp_tools.h"

#include <doctest/doctest.h>

#include "pellucid/autograd.h"
#include "pellucid/compare.h"
#include "pellucid/memory.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

using namespace pellucid;

namespace {

bool same(const Tensor& a, const Tensor& b) { return a.sizes() == b.sizes() && equal(a, b); }

/// The gradients of `leaf` by backward, and by autograd::grad with a graph, which takes no
/// shortcut.
void check_against_tracked(const Tensor& leaf, const std::function<Tensor()>& loss) {
  leaf.mutable_grad().reset();
  loss().backward();
  const Tensor plain = leaf.grad();
  leaf.mutable_grad().reset();
  const Tensor tracked = autograd::grad({loss()}, {leaf}, {}, true, true)[0];
  CHECK(allclose(plain, tracked));
  const Tensor filtered = autograd::grad({loss()}, {leaf})[0];
  CHECK(allclose(filtered, tracked));
}

}  // namespace

TEST_CASE("backward: relu's gradient takes the place of the one it came from") {
  const int64_t n = 1 << 18;
  const Tensor x = randn({n}).requires_grad_(), scale = randn({n});
  const auto peak_of_backward = [&](bool watched) {
    x.mutable_grad().reset();
    const Tensor a = x.relu(), b = a.relu();
    if (watched) a.retain_grad(), b.retain_grad();
    const Tensor loss = (b * scale).sum();
    const int64_t before = memory_stats().allocated;
    reset_peak_memory_stats();
    loss.backward();
    if (watched) {
      CHECK(same(b.grad(), scale));
      CHECK(same(a.grad(), where(a > 0, scale, 0.0)));
    }
    CHECK(same(x.grad(), where(x > 0, scale, 0.0)));
    return memory_stats().peak - before;
  };
  const int64_t seen = peak_of_backward(true), unseen = peak_of_backward(false);
  CHECK(seen - unseen >= 2 * n * 4);  // without retain_grad one block serves b, a and x
}

TEST_CASE("backward: a gradient that a hook or the caller holds is not written to") {
  const Tensor x = randn({64}).requires_grad_(), given = randn({64});
  const Tensor kept = given.clone();
  Tensor held;
  const Tensor a = x.relu(), b = a.relu();
  a.register_hook([&](Tensor g) {
    held = g;
    return Tensor();
  });
  b.backward(given);
  CHECK(same(given, kept));
  CHECK(same(held, where(a > 0, kept, 0.0)));
  const Tensor y = dropout_train(x * 1.0, 0.5).relu();
  std::vector<Tensor> seen;
  y.grad_fn()->add_post_hook([&](const auto& inputs, const auto& outputs) {
    seen = {inputs[0], outputs[0]};
    return autograd::variable_list();
  });
  y.backward(given);
  CHECK(same(seen[1], kept));
  CHECK(same(seen[0], where(y > 0, kept, 0.0)));
}

TEST_CASE("backward: slices add to the sum of their tensor's gradient") {
  const Tensor x = randn({4, 3, 5}, kFloat64).requires_grad_();
  check_against_tracked(x, [&] {
    const Tensor y = x * 2.0;  // the parts meet at a node
    return (y.select(1, 0) * y.select(1, 2).exp() + y.select(1, 0)).sum() +
           (y.slice(2, 1, 5, 3).sin() * y.slice(2, 0, 2)).sum();
  });
  check_against_tracked(x, [&] {  // or at a leaf
    return (x.select(1, 0) * x.select(1, 2).exp() + x.select(1, -1)).sum() +
           (x.slice(2, 1, 5, 3).sin() * x.slice(2, 0, 2)).sum();
  });
  const Tensor y = x * 2.0, part = y.select(0, 1);
  y.retain_grad();
  int calls = 0;
  y.register_hook([&](Tensor g) {
    ++calls;
    return g * 10.0;
  });
  (y.select(0, 0).sum() + part.sum() * 3.0 + y.slice(0, 1, 2).sum()).backward();
  CHECK(calls == 1);
  const Tensor expected = zeros({4, 3, 5}, kFloat64);
  expected.select(0, 0).fill_(10.0);
  expected.select(0, 1).fill_(40.0);
  CHECK(same(y.grad(), expected));
}

TEST_CASE("backward: rows of a tied table are added to its gradient") {
  const Tensor table = randn({7, 3}, kFloat64).requires_grad_();
  const Tensor ids = randint(7, {2, 5});
  const auto loss = [&](int64_t padding) {
    const Tensor x = embedding(table, ids, padding);
    return linear(x.tanh(), table).exp().sum();
  };
  for (const int64_t padding : {-1, 2}) check_against_tracked(table, [&] { return loss(padding); });
  loss(-1).backward();
  const Tensor once = table.grad().clone();
  loss(-1).backward();  // sums over several backwards
  CHECK(allclose(table.grad(), once * 2.0));
  int calls = 0;
  table.register_hook([&](Tensor) {
    ++calls;
    return Tensor();
  });
  table.mutable_grad().reset();
  loss(-1).backward();
  CHECK(calls == 1);
  CHECK(allclose(table.grad(), once));
}

TEST_CASE("backward: in-place adding leaves anomaly mode and retained graphs as they were") {
  const Tensor x = randn({3, 4}, kFloat64).requires_grad_();
  const auto loss = [&] { return (x.select(0, 0) * x.select(0, 1)).sum() + x.relu().sum(); };
  loss().backward();
  const Tensor expected = x.grad().clone();
  x.mutable_grad().reset();
  {
    const autograd::DetectAnomalyGuard on;
    loss().backward();
  }
  CHECK(same(x.grad(), expected));
  x.mutable_grad().reset();
  const Tensor value = loss();
  value.backward({}, true);
  value.backward();
  CHECK(allclose(x.grad(), expected * 2.0));
}

TEST_CASE("last_use: only the call that gets the mark writes over the gradient") {
  const NoGradGuard off;
  const Tensor kept = randn({64});
  using tape::last_use;
  for (int order = 0; order < 4; ++order) {
    const Tensor g = kept.clone();
    const void* const data = g.const_data_ptr();
    Tensor r;
    if (order == 0) r = mul(last_use(g), mul(g, 2.0));  // inner calls come first
    if (order == 1) r = mul(mul(g, 2.0), last_use(g));
    if (order == 2) r = mul(last_use(g), g) * 2.0;  // the gradient is read a second time
    if (order == 3) r = mul(last_use(g), add(last_use(g), g));
    CHECK(same(r, order == 3 ? kept * (kept + kept) : kept * (kept * 2.0)));
    CHECK((r.const_data_ptr() == data) == (order < 2));
  }
  const Tensor g = kept.clone(), other = g;  // somebody else holds it
  CHECK(mul(last_use(g), 2.0).const_data_ptr() != other.const_data_ptr());
  CHECK(same(g, kept));
  for (const OpDef* op : all_ops()) {  // a composition reads its argument several times
    if (!op->compose || op->info->args.size() != 1 || op->info->args[0].type != ArgType::Tensor)
      continue;
    INFO(op->info->name);
    const Tensor x = kept.clone();
    const Tensor* const plain[] = {&kept};
    Tensors expected;
    try {
      expected = call(*op, plain, {});
    } catch (const Error&) { continue; }  // not of one dim
    const tape::LastUse mark(x);
    const Tensor* const marked[] = {&mark.tensor()};
    const Tensors got = call(*op, marked, {});
    for (size_t i = 0; i < got.size(); ++i) CHECK(allclose(got[i], expected[i], 0, 0, true));
    CHECK(same(x, kept));
  }
}

TEST_CASE("backward: a hook that only looks does not change the bits of a tied table's gradient") {
  const Tensor table = randn({7, 33}).requires_grad_();
  const Tensor ids = randint(7, {40});  // rows are used several times
  const auto gradient = [&](bool watch_rows, bool watch_table) {
    table.mutable_grad().reset();
    const Tensor rows = embedding(table, ids);
    const auto look = [](const Tensor&) { return Tensor(); };
    if (watch_rows) {
      rows.register_hook(look);
      rows.retain_grad();
    }
    const unsigned id = watch_table ? table.register_hook(look) : 0;
    linear(rows.tanh(), table).exp().sum().backward();
    if (watch_table) table.remove_hook(id);
    return table.grad();
  };
  const Tensor unseen = gradient(false, false);
  CHECK(same(gradient(true, false), unseen));
  CHECK(same(gradient(false, true), unseen));
  CHECK(same(gradient(true, true), unseen));
}
