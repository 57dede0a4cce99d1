// Reductions as part of a group, against the same calls one by one: the same bits, whatever the
// shapes, layouts, dtypes, values and threads are.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/random.h"
#include "core/fuse.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/memory.h"
#include "pellucid/operators.h"
#include "pellucid/parallel.h"
#include "replay_rounds.h"
#include "support.h"

namespace pellucid::test {
namespace {

// The same bits, but that one NaN is like another: which of two an addition keeps depends on where
// a loop's last elements begin.
bool same_numbers(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  if (!is_floating(a.dtype()) || a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor nan = a.isnan();
  return same_bits(nan, b.isnan()) && same_bits(a.masked_fill(nan, 0), b.masked_fill(nan, 0));
}

bool reduces(const OpDef& op) {
  return op.describes && op.kind == OpKind::Reduction && op.info->visible_outputs > 0;
}

TEST_CASE("every reduction that describes its loop: behind other ops, the bits of eager calls") {
  const FuseAll small;
  const LazyGuard outermost(false);
  int ops = 0, fused_ops = 0;
  std::string never;
  for (const OpDef* op : library_ops()) {
    if (!reduces(*op)) continue;
    ++ops;
    int64_t fused = 0;
    for (const Sample& s : samples_of(*op).valid) {
      INFO(text(s));
      const auto results = [&](bool lazily) {
        const Sample own = own_memory(s);
        const int64_t before = detail::fused_calls;
        const LazyGuard lazy(lazily);
        const NoGradGuard off;
        Tensors out = run(map_tensors(own, [](const Tensor& t) {
          return is_floating(t.dtype()) && t.dim() > 0 ? (t * 1.5).abs() : t;
        }));
        eval();
        if (lazily) fused += detail::fused_calls - before;
        return out;
      };
      const Tensors eager = results(false), lazy = results(true);
      REQUIRE(eager.size() == lazy.size());
      for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
    }
    if (fused > 2)
      ++fused_ops;
    else
      never += " " + op->info->name;
  }
  MESSAGE(fused_ops << " of " << ops << " reductions ran in a group; never:" << never);
  CHECK(fused_ops > ops * 9 / 10);
}

// A reduction of t over some dims, the number of which `way` chooses.
Tensor reduced(const Tensor& t, size_t way, IntArrayRef dims, bool keep) {
  const Tensor x = is_floating(t.dtype()) ? t : t.to(kFloat32);
  switch (t.numel() == 0 ? way % 2 : way) {  // extremes of nothing are errors
    case 0:
      return t.sum(dims, keep);
    case 1:
      return x.mean(dims, keep);
    case 2:
      return t.amax(dims, keep);
    case 3:
      return x.amin(dims, keep);
    case 4:
      return linalg_vector_norm(x, 2, dims, keep);
    case 5:
      return linalg_vector_norm(x, 1.5, dims, keep);
    case 6:
      return x.logsumexp(dims, keep);
    case 7:
      return std::get<0>(x.var_mean(dims, Scalar(1), keep)) + 1;
    case 8:
      return x.std(dims, Scalar(0), keep);
    case 9:
      return t.gt(0.3).any(dims, keep);
    case 10:
      return dims.size() == 1 ? t.argmax(dims[0], keep) : t.sum(dims, keep);
    case 11:
      return dims.size() == 1 ? std::get<1>(t.min(dims[0], keep)) : t.amin(dims, keep);
    case 12:
      return dims.size() == 1 ? x.prod(dims[0], keep) : x.mean(dims, keep);
    default:
      return t.sum(dims, keep, kFloat64);
  }
}
constexpr size_t kWays = 14;

// Numbers of all kinds: some programs get NaN, infinities, denormal numbers and negative zeros.
Tensor numbers(IntArrayRef sizes, bool special) {
  Tensor x = randn(sizes);
  if (!special || x.numel() == 0) return x;
  const Tensor place = rand(sizes);
  Tensor t = where(place < 0.03, x * 1e-42, x);
  t = where((place > 0.5).logical_and(place < 0.53), x * -0.0, t);
  t = where(place > 0.997, full_like(x, NAN), t);
  return where((place > 0.99).logical_and(place < 0.992), full_like(x, -INFINITY), t);
}

// Pointwise ops, ops by rows and reductions over any dims, whose results are used again.
Tensors random_program(uint32_t seed, bool lazily, const Dims& sizes) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  default_generator().manual_seed(seed);
  const bool special = below(4) == 0;
  constexpr DType kTypes[] = {kFloat32, kFloat32, kFloat32, kFloat64, kBFloat16, kFloat16, kInt64};
  const DType dtype = kTypes[below(7)];
  const auto make = [&](IntArrayRef of) {
    return is_floating(dtype) ? numbers(of, special).to(dtype) : randint(-9, 9, of).to(dtype);
  };
  const size_t rank = sizes.size();
  Tensors live;
  for (int i = 0; i < 2; ++i) live.push_back(make(sizes));
  if (below(3) == 0) {  // another layout, of all
    for (Tensor& t : live) t = t.transpose(0, -1).contiguous().transpose(0, -1);
  }
  const Tensor row = make({sizes.back()});
  Tensors seen, stats;
  const LazyGuard lazy(lazily);
  const NoGradGuard off;
  const size_t steps = 2 + below(12);
  for (size_t i = 0; i < steps; ++i) {
    const Tensor a = live[below(live.size())], b = live[below(live.size())];
    const Tensor x = is_floating(a.dtype()) ? a : a.to(kFloat32);
    switch (below(14)) {
      case 0:
        live.push_back(a + b);
        break;
      case 1:
        live.push_back(a * b);
        break;
      case 2:
        live.push_back(x.tanh());
        break;
      case 3:
        live.push_back(a * row - 1);
        break;
      case 4:
        live.push_back(softmax(x, -1));
        break;
      case 5: {  // along the last dims, to be used again
        const size_t way = below(kWays);
        const Tensor s = reduced(a, way, {-1}, true);
        stats.push_back(s);
        if (is_floating(s.dtype())) live.push_back((a - s).to(a.dtype()));
        break;
      }
      case 6: {
        if (stats.empty()) break;
        const Tensor s = stats[below(stats.size())];
        stats.push_back(is_floating(s.dtype()) ? (s * 0.5 + 1).rsqrt() : s.to(kFloat32));
        live.push_back(x * stats.back().to(x.dtype()));
        break;
      }
      case 7:
        if (is_floating(a.dtype())) a.mul_(0.75);
        break;
      case 8:
      case 9: {  // over all
        Dims all;
        for (size_t d = 0; d < rank; ++d) all.push_back(static_cast<int64_t>(d));
        seen.push_back(below(4) == 0 && a.numel() > 0 ? a.argmax()
                                                      : reduced(a, below(kWays), all, false));
        break;
      }
      case 10: {  // over the first dims
        Dims first;
        for (size_t d = 0; d + 1 < rank; ++d) first.push_back(static_cast<int64_t>(d));
        seen.push_back(reduced(a, below(kWays), first, below(2) == 0));
        break;
      }
      case 11:
        seen.push_back(
            reduced(a, below(kWays), {static_cast<int64_t>(below(rank))}, below(2) == 0));
        break;
      case 12:
        if (x.dtype() == b.dtype())
          seen.push_back(below(2) == 0 ? mse_loss(x, b) : smooth_l1_loss(x, b, 2));
        break;
      case 13:
        if (live.size() > 2)
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(below(live.size())));
        break;
    }
  }
  if (below(2) == 0) stats.clear();
  eval();
  for (const Tensor& t : live) seen.push_back(t);
  for (const Tensor& t : stats) seen.push_back(t);
  return seen;
}

TEST_CASE("random programs with reductions: fused, the bits of eager calls") {
  const FuseAll small;
  const LazyGuard outermost(false);
  const bool longer = std::getenv("PELLUCID_TEST_LONG") != nullptr;
  const uint32_t count = longer ? 100'000 : 1'200;
  // Rows that are folded side by side or one by one, few and many columns, chunks of both.
  const std::vector<Dims> sizes = {
      {5, 7},     {40, 12},   {3, 300}, {64, 16},   {300, 9},   {4, 5, 6},   {1, 50},    {33, 1},
      {2, 3, 40}, {7, 20, 8}, {0, 6},   {70, 1030}, {3, 45000}, {2, 40, 64}, {900, 130}, {70000}};
  const int64_t before = detail::fused_calls;
  for (uint32_t seed = 0; seed < count; ++seed) {
    const Dims& of = sizes[seed % 16 < 11 || seed % 48 >= 16 ? seed % 11 : seed % 16];
    INFO("seed " << seed << ", sizes " << of);
    const Tensors eager = random_program(seed, false, of);
    const ReplayRounds rounds(seed);
    for (int round = 0; round < rounds.count; ++round) {
      INFO("round " << round << ", " << rounds.text());
      const Tensors lazy = random_program(seed, true, of);
      REQUIRE(eager.size() == lazy.size());
      for (size_t i = 0; i < eager.size(); ++i) {
        INFO("result " << i);
        REQUIRE(same_numbers(eager[i], lazy[i]));
      }
    }
  }
  const int64_t fused = detail::fused_calls - before;
  MESSAGE("random programs with reductions: " << count << ", with " << fused << " fused calls");
  CHECK(fused > 2 * count);
}

// The parts that a program runs in, as "sub,mul,mean | add".
std::string parts_of(const Explanation& e) {
  std::string out;
  for (const Explanation::Part& p : e.parts) {
    if (!out.empty()) out += " | ";
    for (size_t i = 0; i < p.ops.size(); ++i) out += (i ? "," : "") + p.ops[i];
  }
  return out;
}

TEST_CASE("what is folded is not made") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const Tensor a = randn({512, 768}), b = randn({512, 768}), w = randn({768});
  Tensor out;
  const auto parts = [&](const std::function<Tensor()>& f) {
    const Tensor eager = f();
    const Explanation e = explain([&] { out = f(); });
    CHECK(same_bits(eager, out));
    int64_t unmade = 0;
    for (const Explanation::Part& p : e.parts) unmade += p.unmade;
    return parts_of(e) + " " + std::to_string(unmade);
  };
  CHECK(parts([&] { return (a - b).pow(2).mean(); }) == "sub,pow,mean 2");
  CHECK(parts([&] { return (a * b).sum(-1); }) == "mul,sum 1");
  CHECK(parts([&] { return gelu_backward(a, b).sum(0); }) == "gelu_backward,sum 1");
  CHECK(parts([&] { return l1_loss(a * 2, b); }) == "mul,l1_loss 1");
  CHECK(parts([&] { return linalg_vector_norm(a * 2 - b); }) == "mul,sub,linalg_vector_norm 2");
  CHECK(parts([&] { return a * a.pow(2).mean(-1, true).add(1e-5).rsqrt() * w; }) ==
        "pow,mean,add,rsqrt,mul,mul 5");
  CHECK(parts([&] {
          const Tensor e = exp(a - a.amax(-1, true));
          return e / e.sum(-1, true);
        }) == "amax,sub,exp,sum,div 4");
  CHECK(parts([&] { return (a > b).sum(-1); }) == "gt,sum 1");
  CHECK(parts([&] { return (a * b).argmax(1); }) == "mul,argmax 1");
}

TEST_CASE("a group of a reduction needs no more memory than its result") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const Tensor a = randn({2048, 1024}), b = randn({2048, 1024});
  const LazyGuard lazy;
  eval();
  for (const bool all : {true, false}) {
    const Tensor result = all ? (a - b).pow(2).mean() : (a * b).sum(0);
    const int64_t before = memory_stats().allocated;
    reset_peak_memory_stats();
    eval();
    CHECK(memory_stats().peak - before < (int64_t{1} << 20));
  }
}

TEST_CASE("reductions that cannot follow a group say why") {
  const LazyGuard outermost(false);
  const NoGradGuard off;
  const Tensor a = randn({64, 48}), b = randn({64, 48}), narrow = randn({4096, 4});
  const FuseAll small;
  Tensor x, y;
  const auto end = [&](const std::function<void()>& f) {
    const Explanation e = explain(f);
    x = y = Tensor();
    REQUIRE(!e.parts.empty());
    return e.parts[0].end;
  };
  CHECK(end([&] { x = (a * b + 1).sum(), y = x / (a * 2); }) ==
        "div reads what is complete when the group is done");
  CHECK(end([&] { x = (a * b).sum(0), y = (a * b).sum(); }) ==
        "sum folds in another order than sum");
  CHECK(end([&] { x = (narrow * 2 + 1).sum(0); }) ==
        "sum does not fold along rows or columns here");
  CHECK(end([&] { x = softmax(a * b, -1).sum(); }) ==
        "sum: rows of 48 elements end within blocks of 1024 that are folded");
  CHECK(end([&] { x = relu(mm(a, b.t())).sum(); }) ==
        "sum folds over blocks of mm, which come in any order");
  CHECK(end([&] {
          const Tensor square = a.slice(1, 0, 48).slice(0, 0, 48) * 2;
          x = square - square.sum(1);
        }) == "sub reads statistics of rows in another way");
}

}  // namespace
}  // namespace pellucid::test
