// Every op in a program that is replayed, against eager calls: the same bits, forward and backward.
#include <doctest/doctest.h>

#include "base/random.h"
#include "core/fuse.h"
#include "core/program.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/operators.h"
#include "support.h"

namespace pellucid::test {
namespace {

// The call with something before it and after it, so that there is a program around it.
Tensors around(const Sample& s) {
  const Sample before =
      map_tensors(s, [](const Tensor& t) { return is_floating(t.dtype()) ? t + 0 : t.clone(); });
  Tensors out = run(before);
  const size_t count = out.size();
  for (size_t i = 0; i < count; ++i)
    if (is_floating(out[i].dtype())) out.push_back((out[i] * 0.5 + out[i]).abs());
  return out;
}

TEST_CASE("every op: a program that is replayed gives the bits of eager calls") {
  const FuseAll small;
  const LazyGuard outermost(false);  // in a lazy process, what came before is no part of a program
  const int64_t found = detail::ProgramCache::get().found();
  int samples = 0;
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      default_generator().manual_seed(1);
      const Tensors eager = around(own_memory(s));
      ++samples;
      for (int round = 0; round < 3; ++round) {
        const Sample own = own_memory(s);
        default_generator().manual_seed(1);
        Tensors lazy;
        {
          const LazyGuard on;
          lazy = around(own);
          eval();
        }
        REQUIRE(lazy.size() == eager.size());
        for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
      }
    }
  }
  const int64_t replayed = detail::ProgramCache::get().found() - found;
  MESSAGE(replayed << " of " << samples << " samples were replayed");
  CHECK(replayed > samples * 9 / 10);
}

// Every call alone, so that results lie where inputs did, if the op may write there.
TEST_CASE("every op: results that are written over an input have the bits of others") {
  const LazyGuard outermost(false);
  struct NoGroups {
    NoGroups() { graph::PassSet::set(graph::PassSet("-fuse")); }
    ~NoGroups() { graph::PassSet::set(graph::PassSet()); }
  } const no_groups;
  const auto inside = [](const Sample& s) {
    Tensors out = run(
        map_tensors(s, [](const Tensor& t) { return is_floating(t.dtype()) ? t + 0 : t.clone(); }));
    for (Tensor& t : out) t = t.clone();
    return out;
  };
  int64_t reused = 0;
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      const NoGradGuard off;
      default_generator().manual_seed(1);
      const Tensors eager = inside(own_memory(s));
      const Sample own = own_memory(s);
      default_generator().manual_seed(1);
      Tensors lazy;
      reused += explain([&] { lazy = inside(own); }).reused;
      REQUIRE(lazy.size() == eager.size());
      for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
    }
  }
  MESSAGE(reused << " results were written over an input");
  CHECK(reused > 300);
}

TEST_CASE("every op: gradients in a program that is replayed have the bits of eager ones") {
  const auto gradients = [](const Sample& s, bool lazily) {
    const Sample own = own_memory(s);
    Tensors out;
    const LazyGuard lazy(lazily);
    default_generator().manual_seed(1);
    const Differentiable d = differentiable(own);
    Tensors results;
    for (const Tensor& t : d.f(d.inputs))
      if (t.requires_grad() && t.numel() > 0) results.push_back(t.sin().sum());
    if (results.empty()) return out;
    autograd::backward(results);
    for (const Tensor& t : d.inputs) out.push_back(t.grad());
    eval();
    return out;
  };
  const LazyGuard outermost(false);  // in a lazy process, what came before is no part of a program
  const int64_t found = detail::ProgramCache::get().found();
  int samples = 0;
  for (const OpDef* op : library_ops()) {
    if (op->vjp == no_gradient || !has_defined_values(*op)) continue;
    for (const Sample& s : samples_of(*op).valid) {
      if (!s.gradients) continue;
      INFO(text(s));
      Tensors eager;
      try {
        eager = gradients(s, false);
      } catch (const AutogradError&) { continue; }
      ++samples;
      for (int round = 0; round < 3; ++round) {
        const Tensors lazy = gradients(s, true);
        REQUIRE(lazy.size() == eager.size());
        for (size_t i = 0; i < eager.size(); ++i) {
          REQUIRE(eager[i].defined() == lazy[i].defined());
          if (eager[i].defined()) CHECK(same_bits(eager[i], lazy[i]));
        }
      }
    }
  }
  const int64_t replayed = detail::ProgramCache::get().found() - found;
  MESSAGE(replayed << " of " << samples << " samples were replayed");
  CHECK(replayed > samples / 2);
}

}  // namespace
}  // namespace pellucid::test
