// Calls that run as one group against the same calls one by one: the same bits, whatever the
// shapes, layouts, dtypes and handles are.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "base/random.h"
#include "core/fuse.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/memory.h"
#include "pellucid/operators.h"
#include "pellucid/parallel.h"
#include "support.h"

namespace pellucid::test {
namespace {

// Small tensors are fused too while it lives.
struct FuseAll {
  FuseAll() { detail::least_fused = 0; }
  ~FuseAll() { detail::least_fused = detail::kLeastFused; }
  FuseAll(const FuseAll&) = delete;
};

Sample own_memory(const Sample& s) {
  return map_tensors(
      s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.detach().clone(); });
}

// What comes after the op, on its result.
Tensor follow(const Tensor& t) {
  if (t.dtype() == kBool) return t.logical_not().logical_or(t);
  return is_floating(t.dtype()) ? (t * 0.5 + t).abs() : t.mul(3).add(t);
}

TEST_CASE("every op that describes its loop: fused with others it gives the bits of eager calls") {
  const FuseAll small;
  int ops = 0, fused_ops = 0;
  std::string never;
  for (const OpDef* op : all_ops()) {
    if (!op->describes) continue;
    ++ops;
    const int64_t before = detail::fused_calls;
    for (const Sample& s : samples_of(*op).valid) {
      for (const bool kept : {false, true}) {
        INFO(text(s) << (kept ? ", its result is kept" : ""));
        const auto results = [&](bool lazily) {
          const Sample own = own_memory(s);
          const LazyGuard lazy(lazily);
          Tensors out = run(own);
          const Tensor last = follow(out[0]);
          if (!kept) out.clear();
          out.push_back(last);
          eval();
          return out;
        };
        const Tensors eager = results(false), lazy = results(true);
        REQUIRE(eager.size() == lazy.size());
        for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
      }
    }
    if (detail::fused_calls > before)
      ++fused_ops;
    else
      never += " " + op->info->name;
  }
  MESSAGE(fused_ops << " of " << ops << " ops ran in a group; never:" << never);
  CHECK(fused_ops > ops * 9 / 10);
}

TEST_CASE("pointwise ops that cannot run in a group are known, each with its reason") {
  const std::map<std::string, std::string> known = {
      {"_channels_last", "it changes the layout"},
      {"_relayout", "it changes the layout"},
      {"_to_copy", "it copies, and may change the layout"},
      {"bitwise_not", "it has a kernel of its own for bool"},
      {"clone", "it copies, and may change the layout"},
      {"masked_fill", "it may convert its value first"},
  };
  std::set<std::string> found;
  for (const OpDef* op : all_ops())
    if (op->kind == OpKind::Pointwise && op->kernel && !op->describes &&
        !op->info->name.starts_with("user_"))  // other tests register those
      found.insert(op->info->name);
  for (const std::string& name : found) CHECK_MESSAGE(known.contains(name), name);
  for (const auto& [name, reason] : known) CHECK_MESSAGE(found.contains(name), name);
}

// Programs of ops that can be fused, on tensors of several shapes, layouts and dtypes.
Tensors random_program(uint32_t seed, bool lazily, IntArrayRef sizes) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  default_generator().manual_seed(seed);
  const int64_t rows = sizes[0], n = sizes[1];
  constexpr DType kTypes[] = {kFloat32, kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kUInt8};
  const bool mixed = below(3) == 0;
  const auto make = [&](IntArrayRef of) {
    const DType dtype = mixed ? kTypes[below(7)] : kFloat32;
    return is_floating(dtype) ? randn(of).to(dtype) : randint(0, 9, of).to(dtype);
  };
  const int64_t whole[] = {rows, n}, other[] = {n, rows}, column[] = {rows, 1}, row[] = {n};
  Tensors live;
  for (int i = 0; i < 2; ++i) live.push_back(make(whole));
  live.push_back(make(other).t());  // another layout
  const Tensors outside = {make(row), make(column), make({1}), make({})};
  const Tensor weight = randn(row), bias = randn(row);
  Tensors seen;
  const LazyGuard lazy(lazily);
  const NoGradGuard off;
  const size_t steps = 3 + below(20);
  const auto floating = [](const Tensor& t) { return is_floating(t.dtype()) ? t : t.to(kFloat32); };
  for (size_t i = 0; i < steps; ++i) {
    const Tensor a = live[below(live.size())];
    const Tensor b = below(3) == 0 ? outside[below(outside.size())] : live[below(live.size())];
    switch (below(16)) {
      case 0:
        live.push_back(a + b);
        break;
      case 1:
        live.push_back(a * b - 2);
        break;
      case 2:
        live.push_back(sub(a, b, 3));
        break;
      case 3:
        live.push_back(gelu(floating(a)));
        break;
      case 4:
        live.push_back(tanh(a));
        break;
      case 5:
        live.push_back(sin(a) * 0.5);
        break;
      case 6:
        live.push_back(softmax(floating(a), 1));
        break;
      case 7:
        live.push_back(log_softmax(floating(a), -1));
        break;
      case 8: {
        const Tensor x = floating(a);
        const bool with = below(2) == 0;
        live.push_back(layer_norm(x, {n}, with ? weight.to(x.dtype()) : Tensor(),
                                  with ? bias.to(x.dtype()) : Tensor()));
        break;
      }
      case 9:
        live.push_back(where(a > b, a, b));
        break;
      case 10:
        live.push_back(clamp(a, -1, 2));
        break;
      case 11:
        live.push_back(pow(floating(a), 2));
        break;
      case 12:
        if (is_floating(a.dtype())) a.mul_(0.75);
        break;
      case 13:
        if (is_floating(a.dtype())) a.add_(b);
        break;
      case 14:
        if (is_floating(a.dtype())) a.slice(0, 0, rows / 2).mul_(2);  // a part of it
        break;
      case 15:
        if (live.size() > 3)
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(below(live.size())));
        break;
    }
    if (below(25) == 0) seen.push_back(full({}, floating(a).sum().item<double>()));
  }
  eval();
  for (const Tensor& t : live) seen.push_back(t);
  return seen;
}

TEST_CASE("random programs of pointwise and row ops: fused, the bits of eager calls") {
  const FuseAll small;
  const bool longer = std::getenv("PELLUCID_TEST_LONG") != nullptr;
  const uint32_t count = longer ? 100'000 : 1'200;
  constexpr int64_t kSizes[][2] = {{5, 7},     {3, 300}, {64, 16}, {2, 5000},
                                   {37, 1031}, {1, 9},   {8, 1}};
  const int64_t before = detail::fused_calls;
  const int threads = get_num_threads();
  for (uint32_t seed = 0; seed < count; ++seed) {
    const auto& sizes = kSizes[seed % 40 == 39   ? 4
                               : seed % 20 == 19 ? 3
                               : seed % 3 == 2   ? 5 + seed % 2
                                                 : seed % 3];
    INFO("seed " << seed << ", sizes " << sizes[0] << " x " << sizes[1]);
    const Tensors eager = random_program(seed, false, sizes);
    set_num_threads(seed % 3 == 0 ? 1 : 2);
    const Tensors lazy = random_program(seed, true, sizes);
    set_num_threads(threads);
    REQUIRE(eager.size() == lazy.size());
    for (size_t i = 0; i < eager.size(); ++i) REQUIRE(same_bits(eager[i], lazy[i]));
  }
  const int64_t fused = detail::fused_calls - before;
  MESSAGE("random programs: " << count << ", with " << fused << " fused calls");
  CHECK(fused > 2 * count);
}

TEST_CASE("captures of many calls run in groups, one after the other") {
  const LazyGuard lazy;
  const NoGradGuard off;
  const int64_t before = detail::fused_calls;
  Tensor small = zeros({1}), large = zeros({detail::kLeastFused});
  for (int i = 0; i < 60'000; ++i) small = small + 1;
  for (int i = 0; i < 5'000; ++i) large = large + 1;
  eval();
  CHECK(small.item<float>() == 60'000);
  CHECK(large.sum().item<double>() == 5'000.0 * static_cast<double>(detail::kLeastFused));
  CHECK(detail::fused_calls - before == 5'000);
}

TEST_CASE("groups are right for arguments beyond the range of polynomials") {
  const FuseAll small;
  const LazyGuard outermost(false);
  for (const DType dtype : {kFloat32, kFloat64}) {
    const double inf = std::numeric_limits<double>::infinity();
    const Tensor x =
        cat(Tensors{tensor({1.0, -2.5, 1e4, -2e4, 3e6, 1e10, -1e20, 1e37, inf, -inf}, kFloat64),
                    linspace(-1e5, 1e5, 700, kFloat64)})
            .to(dtype);
    const auto f = [](const Tensor& t) {
      return t.mul(3).sin() + t.cos().mul(2) - t.tan().abs() + t.fmod(0.75) + t.remainder(-2.5) +
             t.floor_divide(1e3);
    };
    const Tensor eager = f(x);
    const int64_t before = detail::fused_calls;
    Tensor lazy;
    {
      const LazyGuard scope;
      lazy = f(x);
    }
    CHECK(detail::fused_calls > before);
    CHECK(eager.slice(0, 0, 7).isfinite().all().item<bool>());
    CHECK(eager.slice(0, 8, 10).isnan().all().item<bool>());
    const Tensor nan = eager.isnan();
    CHECK(same_bits(nan, lazy.isnan()));
    CHECK(same_bits(eager.masked_fill(nan, 0), lazy.masked_fill(nan, 0)));
  }
}

TEST_CASE("what only a group reads gets no memory") {
  const Tensor x = randn({512, 1024}), weight = randn({1024});
  const auto f = [&] { return layer_norm(gelu(x * 100 + 10) + x, {1024}, weight, Tensor()); };
  const NoGradGuard off;
  const Tensor eager = [&] {
    const LazyGuard at_once(false);
    return f();
  }();
  const LazyGuard lazy;
  const Tensor y = f();
  const int64_t before = memory_stats().allocated;
  reset_peak_memory_stats();
  eval();
  CHECK(same_bits(eager, y));
  CHECK(memory_stats().allocated <= before + y.nbytes());  // numbers that calls kept are gone
  CHECK(memory_stats().peak - before < y.nbytes() + (int64_t{1} << 20));
}

}  // namespace
}  // namespace pellucid::test
