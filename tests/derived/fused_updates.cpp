// Small updates that run as one against the same calls one by one: the same bits, for the step of
// every optimiser.
#include <doctest/doctest.h>

#include "base/random.h"
#include "core/fuse.h"
#include "core/program.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/operators.h"
#include "pellucid/optim.h"
#include "pellucid/parallel.h"
#include "support.h"

namespace pellucid::test {
namespace {

// The step of an op on parameters of several sizes: its first sample with arrays of those.
Tensors steps_on(const Sample& s, IntArrayRef sizes, DType dtype, bool lazily) {
  default_generator().manual_seed(3);
  std::vector<Sample> calls;
  Tensors changed;
  for (const int64_t n : sizes) {
    calls.push_back(map_tensors(s, [&](const Tensor& t) {
      Tensor own = t.dim() == 0 ? t.clone() : rand({n}).to(dtype);
      changed.push_back(own);
      return own;
    }));
  }
  const LazyGuard lazy(lazily);
  for (const Sample& c : calls) run(c);
  eval();
  return changed;
}

TEST_CASE("the steps of every optimiser on small parameters run as one, with the bits of others") {
  const LazyGuard outermost(false);
  const int threads = get_num_threads();
  const int64_t sizes[] = {1, 64, 7, 512, 33, 16000, 1, 300, 4000, 8000, 128, 9000};
  int ops = 0;
  for (const OpDef* op : library_ops()) {
    if (op->info->visible_outputs != 0 || !op->info->mutates || !op->describes) continue;
    ++ops;
    for (const Sample& s : samples_of(*op).valid)
      for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
        INFO(text(s) << " in " << dtype);
        const Tensors eager = steps_on(s, sizes, dtype, false);
        for (int round = 0; round < 3; ++round) {
          set_num_threads(1 + round % 2);
          const int64_t before = detail::fused_calls;
          const Tensors lazy = steps_on(s, sizes, dtype, true);
          set_num_threads(threads);
          // From the second time on a program runs.
          if (round > 0 && dtype != kBFloat16)
            CHECK(detail::fused_calls - before == static_cast<int64_t>(std::size(sizes)));
          REQUIRE(eager.size() == lazy.size());
          for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
        }
      }
  }
  MESSAGE("steps of " << ops << " optimisers");
  CHECK(ops >= 10);
}

TEST_CASE("updates that depend on each other, or are large, do not run as one") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const Tensor a = ones({100}), b = ones({100}), large = ones({20000}), g = rand({100}),
               h = rand({20000}), rate = full({}, 0.5);
  const auto step = [&](const Tensor& p, const Tensor& by) {
    sgd_step(p, by, {}, rate, 0, 0, 0, false, false);
  };
  const Explanation e = explain([&] {
    step(a, g);
    step(b, a);  // reads what the first changes
    step(large, h);
    step(b, g);
    step(a, g);
  });
  std::vector<size_t> counts;
  for (const Explanation::Part& p : e.parts) counts.push_back(p.ops.size());
  CHECK(counts == std::vector<size_t>{1, 1, 2, 1});
}

TEST_CASE("a network's optimiser replays its small parameters in one part") {
  const LazyGuard outermost(false);
  const auto train = [](bool compiled) {
    default_generator().manual_seed(1);
    Tensors params;
    for (int i = 0; i < 40; ++i)
      params.push_back(randn({i % 5 == 0 ? 20000 : 10 + i}).requires_grad_());
    optim::AdamW optimizer(params, optim::AdamWOptions(0.1).weight_decay(0.01));
    const auto step = [&] {
      Tensor loss = zeros({});
      for (const Tensor& p : params) loss = loss + p.mul(p).sum();
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    };
    for (int i = 0; i < 4; ++i) {
      const LazyGuard lazy(compiled);
      step();
    }
    if (compiled) {
      size_t most = 0;
      for (const Explanation::Part& p : explain(step).parts)
        if (p.ops.back() == "adam_step") most = std::max(most, p.ops.size());
      CHECK(most == 32);
    } else {
      step();
    }
    return params;
  };
  const Tensors eager = train(false), lazy = train(true);
  for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
}

}  // namespace
}  // namespace pellucid::test
