// Every op, captured and run later, against the same call at once: the same bits forward, backward
// and in place, and the same errors. And random programs.
#include "pellucid/lazy.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "base/random.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "replay_rounds.h"
#include "support.h"

namespace pellucid::test {
namespace {

Tensors run_lazily(const Sample& s, int& pending, bool in_place = false) {
  const LazyGuard lazy;
  Tensors out = run(s, in_place);
  for (const Tensor& t : out) pending += is_pending(t);
  return out;
}

TEST_CASE("every op: a call that is kept gives the bits of one that runs at once") {
  int pending = 0, results = 0;
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      const Sample a = own_memory(s), b = own_memory(s);
      default_generator().manual_seed(1);
      const Tensors eager = run(a);
      default_generator().manual_seed(1);
      const Tensors lazy = run_lazily(b, pending);
      REQUIRE(lazy.size() == eager.size());
      results += static_cast<int>(lazy.size());
      for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
      const Tensors eager_inputs = tensors_of(a), lazy_inputs = tensors_of(b);  // some are changed
      for (size_t i = 0; i < eager_inputs.size(); ++i)
        CHECK(same_bits(eager_inputs[i], lazy_inputs[i]));
    }
  }
  MESSAGE(pending << " of " << results << " results were pending");
  CHECK(pending > results / 2);
}

TEST_CASE("every op: gradients of kept calls have the bits of eager ones") {
  const auto gradients = [](const Sample& s, bool lazily) {
    const Sample own = own_memory(s);
    Tensors out;
    {
      const LazyGuard lazy(lazily);
      default_generator().manual_seed(1);
      const Differentiable d = differentiable(own);
      Tensors results;
      for (const Tensor& t : d.f(d.inputs))
        if (t.requires_grad() && t.numel() > 0) results.push_back(t.sin().sum());
      if (results.empty()) return out;
      autograd::backward(results);
      for (const Tensor& t : d.inputs) out.push_back(t.grad());
    }
    return out;
  };
  for (const OpDef* op : library_ops()) {
    if (op->vjp == no_gradient || !has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      Tensors eager;
      try {
        eager = gradients(s, false);
      } catch (const AutogradError&) {
        continue;  // there is no derivative, or an argument that the op changes is a leaf
      }
      const Tensors lazy = gradients(s, true);
      REQUIRE(lazy.size() == eager.size());
      for (size_t i = 0; i < eager.size(); ++i) {
        REQUIRE(eager[i].defined() == lazy[i].defined());
        if (eager[i].defined()) CHECK(same_bits(eager[i], lazy[i]));
      }
    }
  }
}

TEST_CASE("every op: the in-place form of a kept call gives what an eager one gives") {
  for (const OpDef* op : library_ops()) {
    if (!op->info->has_in_place || op->info->is_view) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s) << " in place");
      const auto changed = [&](bool lazily) {
        const Sample own = own_memory(s);
        default_generator().manual_seed(1);
        const LazyGuard lazy(lazily);
        const Tensors out = run(own, true);
        return out[0];
      };
      Tensor eager;
      try {
        eager = changed(false);
      } catch (const Error&) {
        CHECK_THROWS_AS(changed(true), Error);
        continue;
      }
      CHECK(same_bits(eager, changed(true)));
    }
  }
}

TEST_CASE("every op: failing samples throw at the call that would be kept") {
  for (const OpDef* op : library_ops())
    for (const Sample& s : samples_of(*op).failing) {
      INFO(text(s));
      const LazyGuard lazy;
      std::string message;
      try {
        run(s);
      } catch (const Error& e) { message = e.what(); }
      CHECK(message.find(s.error) != std::string::npos);
    }
}

// A program of random calls on a few tensors: pointwise ops, reductions, products, views, changes
// in place, random numbers, handles that go, and values that are looked at. Returns all that it
// saw.
Tensors random_program(uint32_t seed, bool lazily) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  default_generator().manual_seed(seed);
  Tensors live, seen;
  for (int i = 0; i < 3; ++i) live.push_back(randn({4, 6}));
  for (int i = 0; i < 2; ++i) live.push_back(randn({4, 6}).requires_grad_());
  const LazyGuard lazy(lazily);
  const size_t steps = 10 + below(30);
  for (size_t i = 0; i < steps; ++i) {
    const Tensor a = live[below(live.size())], b = live[below(live.size())];
    const bool changeable = !(a.requires_grad() && a.is_leaf()) && !a.is_view();
    switch (below(14)) {
      case 0:
        live.push_back(a + b);
        break;
      case 1:
        live.push_back(a * b - 0.5);
        break;
      case 2:
        live.push_back(tanh(a) / (1 + b.square()));
        break;
      case 3:
        live.push_back(matmul(a, b.t()).matmul(b));
        break;
      case 4:
        live.push_back(a.sum(1, true) + b.mean());
        break;
      case 5:
        live.push_back(softmax(a, 1));
        break;
      case 6:
        live.push_back(dropout(a, 0.3, true));
        break;
      case 7:
        live.push_back(a + rand({4, 6}));
        break;
      case 8: {
        if (!changeable) break;
        const NoGradGuard off;
        a.detach().add_(b.detach(), 0.25);
        break;
      }
      case 9: {
        const NoGradGuard off;
        if (changeable) a.detach()[static_cast<int64_t>(below(4))].mul_(2);
        break;
      }
      case 10:
        live.push_back(a.slice(0, 0, 2).repeat({2, 1}) + b);
        break;
      case 11:
        if (live.size() > 6)
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(5 + below(live.size() - 5)));
        break;
      case 12:
        seen.push_back(full({}, a.sum().item<double>()));
        break;
      case 13:
        live.push_back(where(a > b, a, b.neg()));
        break;
    }
    if (live.back().sizes() != IntArrayRef({4, 6}))
      live.back() = live.back().expand({4, 6}).clone();
  }
  Tensor total = zeros({});
  for (const Tensor& t : live) total = total + t.sin().sum();
  try {
    total.backward();
    for (size_t i = 3; i < 5; ++i)
      seen.push_back(live[i].grad().defined() ? live[i].grad() : zeros({}));
  } catch (const AutogradError& e) {
    // A tensor that backward needs was changed: both sides must say so.
    seen.push_back(full({}, static_cast<double>(std::string_view(e.what()).size())));
  }
  for (const Tensor& t : live) seen.push_back(t.detach());
  return seen;
}

TEST_CASE("random programs: lazily the same bits as eagerly") {
  const uint32_t count = std::getenv("PELLUCID_TEST_LONG") ? 100'000 : 1'500;
  const int64_t before = detail::ProgramCache::get().found();
  for (uint32_t seed = 0; seed < count; ++seed) {
    INFO("seed " << seed);
    const Tensors eager = random_program(seed, false);
    const ReplayRounds rounds(seed);
    for (int round = 0; round < rounds.count; ++round) {
      INFO("round " << round << ", " << rounds.text());
      const Tensors lazy = random_program(seed, true);
      REQUIRE(eager.size() == lazy.size());
      for (size_t i = 0; i < eager.size(); ++i) REQUIRE(same_bits(eager[i], lazy[i]));
    }
  }
  const int64_t replayed = detail::ProgramCache::get().found() - before;
  MESSAGE("random programs: " << count << ", with " << replayed << " replays");
  CHECK(replayed > count / 4);
}

}  // namespace
}  // namespace pellucid::test
