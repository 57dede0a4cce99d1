// Calls that run as one group against the same calls one by one: the same bits, whatever the
// shapes, layouts, dtypes and handles are.
#include <doctest/doctest.h>

#include <cmath>
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
#include "replay_rounds.h"
#include "support.h"

namespace pellucid::test {
namespace {

// What comes after the op, on its result.
Tensor follow(const Tensor& t) {
  if (t.dtype() == kBool) return t.logical_not().logical_or(t);
  return is_floating(t.dtype()) ? (t * 0.5 + t).abs() : t.mul(3).add(t);
}

TEST_CASE("every op that describes its loop: fused with others it gives the bits of eager calls") {
  const FuseAll small;
  int ops = 0, fused_ops = 0;
  std::string never;
  for (const OpDef* op : library_ops()) {
    if (!op->describes || op->info->visible_outputs == 0) continue;  // optimisers: see below
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
  for (const OpDef* op : library_ops())
    if (op->kind == OpKind::Pointwise && op->kernel && !op->describes &&
        !op->info->name.starts_with("user_"))  // other tests register those
      found.insert(op->info->name);
  for (const std::string& name : found) CHECK_MESSAGE(known.contains(name), name);
  for (const auto& entry : known) CHECK_MESSAGE(found.contains(entry.first), entry.first);
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
  const Tensor square = n <= 1031 ? randn({n, n}) * (1.0 / static_cast<double>(n)) : Tensor();
  Tensors seen;
  const LazyGuard lazy(lazily);
  const NoGradGuard off;
  const size_t steps = 3 + below(20);
  const auto floating = [](const Tensor& t) { return is_floating(t.dtype()) ? t : t.to(kFloat32); };
  for (size_t i = 0; i < steps; ++i) {
    const Tensor a = live[below(live.size())];
    const Tensor b = below(3) == 0 ? outside[below(outside.size())] : live[below(live.size())];
    switch (below(18)) {
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
      default:  // a product, which what comes next may follow
        if (n <= 1031) live.push_back(linear(floating(a), square.to(floating(a).dtype())));
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
  for (uint32_t seed = 0; seed < count; ++seed) {
    const auto& sizes = kSizes[seed % 40 == 39   ? 4
                               : seed % 20 == 19 ? 3
                               : seed % 3 == 2   ? 5 + seed % 2
                                                 : seed % 3];
    INFO("seed " << seed << ", sizes " << sizes[0] << " x " << sizes[1]);
    const Tensors eager = random_program(seed, false, sizes);
    const ReplayRounds rounds(seed);
    for (int round = 0; round < rounds.count; ++round) {
      INFO("round " << round << ", " << rounds.text());
      const Tensors lazy = random_program(seed, true, sizes);
      REQUIRE(eager.size() == lazy.size());
      for (size_t i = 0; i < eager.size(); ++i) REQUIRE(same_bits(eager[i], lazy[i]));
    }
  }
  const int64_t fused = detail::fused_calls - before;
  MESSAGE("random programs: " << count << ", with " << fused << " fused calls");
  CHECK(fused > 2 * count);
}

// A product, by one of the ops that can begin a group.
struct ProductCase {
  const char* op;
  int64_t m, n, k;
};
Tensor product_of(const ProductCase& p, const Tensors& in) {
  const std::string_view op = p.op;
  if (op == "mm") return mm(in[0], in[1]);
  if (op == "mm of transposed") return mm(in[0], in[1]);
  if (op == "linear") return linear(in[0], in[1], in[2]);
  if (op == "linear without bias") return linear(in[0], in[1]);
  if (op == "addmm") return addmm(in[2], in[0], in[1], 0.5, 2);
  if (op == "matmul") return matmul(in[0], in[1]);
  if (op == "baddbmm") return baddbmm(in[2], in[0], in[1]);
  return bmm(in[0], in[1]);
}
Tensors operands_of(const ProductCase& p, DType dtype) {
  const std::string_view op = p.op;
  const auto make = [&](IntArrayRef sizes) { return randn(sizes).to(dtype); };
  if (op == "mm") return {make({p.m, p.k}), make({p.k, p.n})};
  if (op == "mm of transposed") return {make({p.k, p.m}).t(), make({p.k, p.n})};
  if (op == "linear") return {make({p.m, p.k}), make({p.n, p.k}), make({p.n})};
  if (op == "linear without bias") return {make({2, p.m, p.k}), make({p.n, p.k})};
  if (op == "addmm") return {make({p.m, p.k}), make({p.k, p.n}), make({p.n})};
  if (op == "matmul") return {make({3, p.m, p.k}), make({p.k, p.n})};
  if (op == "baddbmm") return {make({3, p.m, p.k}), make({3, p.k, p.n}), make({p.m, 1})};
  const int64_t batch = op == "bmm of 9" ? 9 : 2;
  return {make({batch, p.m, p.k}), make({batch, p.k, p.n})};
}

// What follows the product: pointwise ops with what networks have at hand, changes in place, reads
// in other shapes, another product.
Tensors follow_product(const ProductCase& p, uint32_t seed, bool lazily) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  default_generator().manual_seed(seed);
  const DType dtype = below(4) == 0 ? kFloat64 : kFloat32;
  const Tensors in = operands_of(p, dtype);
  const NoGradGuard off;
  Tensor like;
  {
    const LazyGuard at_once(false);
    like = product_of(p, in);
  }
  Dims sizes(like.sizes());
  const Tensor residual = randn(sizes).to(dtype), row = randn({sizes.back()}).to(dtype),
               column = randn({sizes[sizes.size() - 2], 1}).to(dtype),
               turned = randn(sizes).to(dtype).mT().contiguous().mT(), changed = residual.clone();
  Tensors state;  // of parameters, which the result of a product moves
  for (int i = 0; i < 5; ++i) state.push_back(rand(sizes).to(dtype));
  const Tensor count = full({}, 3, kInt64), rate = full({}, 0.1, kFloat64);
  Tensors kept;
  const LazyGuard lazy(lazily);
  Tensor t = product_of(p, in);
  if (below(3) == 0) kept.push_back(t);
  const size_t steps = 1 + below(6);
  for (size_t i = 0; i < steps; ++i) {
    switch (below(17)) {
      case 0:
        t = t + row;
        break;
      case 1:
        t = t * column;
        break;
      case 2:
        t = t + residual;
        break;
      case 3:
        t = gelu(t);
        break;
      case 4:
        t = relu(t) * 0.5;
        break;
      case 5:
        t = where(t > turned, t, turned);
        break;
      case 6:
        t.mul_(0.75);
        break;
      case 7:
        changed.add_(t);
        break;
      case 8:
        if (in[0].sizes() == t.sizes()) in[0].add_(t);  // the product must have read it all
        break;
      case 9:
        t = tanh(t.view({-1, sizes.back()})).view(sizes);
        break;
      case 10:
        t = t.to(kBFloat16).to(dtype);
        break;
      case 11:
        t = softmax(t, -1);
        break;
      case 12:
        kept.push_back(t > 0);
        break;
      case 13:
        t = product_of(p, in) + t;
        break;
      case 14:
        adam_step(state[0], t, state[1], state[2], {}, count, rate, 0.9, 0.999, 1e-8, 0.1, true);
        break;
      case 15:
        sgd_step(state[3], t, {}, rate, 0, 0, 0.01, false, false);
        break;
      case 16:
        rmsprop_step(state[4], t, state[2], {}, state[1], count, rate, 0.9, 1e-8, 0, 0.5);
        break;
    }
    if (below(6) == 0) kept.push_back(t);
  }
  eval();
  kept.push_back(t);
  kept.push_back(changed);
  kept.push_back(in[0]);
  kept.push_back(count);
  kept.insert(kept.end(), state.begin(), state.end());
  return kept;
}

TEST_CASE("products and what follows them: the bits of eager calls on every path of the product") {
  const FuseAll small;
  const bool longer = std::getenv("PELLUCID_TEST_LONG") != nullptr;
  constexpr ProductCase kSmall[] = {
      {"mm", 5, 7, 3},      {"mm", 1, 9, 4},         {"mm", 9, 1, 4},
      {"mm", 8, 6, 0},      {"mm", 64, 64, 64},      {"mm of transposed", 40, 50, 60},
      {"linear", 8, 10, 9}, {"linear", 64, 100, 30}, {"linear without bias", 6, 12, 5},
      {"addmm", 16, 20, 8}, {"matmul", 7, 11, 5},    {"baddbmm", 12, 10, 6},
      {"bmm", 10, 10, 10},  {"bmm of 9", 20, 30, 9}, {"matmul", 24, 24, 24}};
  // One for each way in which a product is cut and multiplied.
  constexpr ProductCase kLarge[] = {
      {"mm", 300, 300, 300},    {"linear", 200, 333, 300},  {"linear", 40, 500, 2100},
      {"mm", 1500, 1400, 40},   {"mm", 128, 1100, 1900},    {"mm of transposed", 2048, 1000, 130},
      {"bmm", 300, 300, 300},   {"bmm of 9", 100, 120, 80}, {"matmul", 90, 400, 300},
      {"addmm", 300, 280, 270}, {"baddbmm", 200, 150, 260}, {"linear without bias", 150, 40, 400}};
  const int threads = get_num_threads();
  const int64_t before = detail::fused_calls;
  uint32_t count = 0;
  const auto compare = [&](const ProductCase& p, uint32_t seed) {
    INFO(std::string(p.op) << " " << p.m << " x " << p.n << " x " << p.k << ", seed " << seed);
    const Tensors eager = follow_product(p, seed, false);
    set_num_threads(seed % 2 == 0 ? 1 : 2);
    const Tensors lazy = follow_product(p, seed, true);
    set_num_threads(threads);
    REQUIRE(eager.size() == lazy.size());
    for (size_t i = 0; i < eager.size(); ++i) REQUIRE(same_bits(eager[i], lazy[i]));
    ++count;
  };
  for (const ProductCase& p : kSmall)
    for (uint32_t seed = 0; seed < (longer ? 2'000u : 40u); ++seed) compare(p, seed);
  for (const ProductCase& p : kLarge)
    for (uint32_t seed = 0; seed < (longer ? 100u : 3u); ++seed) compare(p, seed);
  const int64_t fused = detail::fused_calls - before;
  MESSAGE("products with what follows them: " << count << ", with " << fused << " fused calls");
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

TEST_CASE("a product that only its epilogue reads gets no memory") {
  const Tensor x = randn({256, 512}), w = randn({1024, 512}), bias = randn({1024}),
               residual = randn({256, 1024});
  const NoGradGuard off;
  const LazyGuard lazy;
  eval();
  const Tensor y = gelu(linear(x, w, bias)) + residual;
  const int64_t before = memory_stats().allocated, groups = detail::fused_calls;
  reset_peak_memory_stats();
  eval();
  CHECK(detail::fused_calls - groups == 3);
  CHECK(memory_stats().allocated == before + y.nbytes());
  // The result, and what the product and the tiles of two threads take for themselves.
  CHECK(memory_stats().peak - before < y.nbytes() + 2 * x.nbytes() + (int64_t{1} << 20));
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

TEST_CASE("optimisers' steps run in the epilogue of the product that makes their gradient") {
  const FuseAll small;
  const auto steps = [](bool lazily, bool keeps_gradient) {
    default_generator().manual_seed(7);
    const Tensor x = randn({40, 30}), dy = randn({40, 50}), w = randn({50, 30}), m = rand({50, 30}),
                 v = rand({50, 30}), count = full({}, 3, kInt64), lr = full({}, 0.1, kFloat64);
    Tensor grad;
    const int64_t before = detail::fused_calls;
    {
      const LazyGuard lazy(lazily);
      const NoGradGuard off;
      eval();
      grad = mm(dy.t(), x);
      adam_step(w, grad, m, v, {}, count, lr, 0.9, 0.999, 1e-8, 0.1, true);
      if (!keeps_gradient) grad = Tensor();
      eval();
    }
    CHECK(detail::fused_calls - before == (lazily ? 2 : 0));
    CHECK(count.item<int64_t>() == 4);
    return Tensors{w, m, v, keeps_gradient ? grad : w};
  };
  for (const bool keeps : {false, true}) {
    const Tensors eager = steps(false, keeps), lazy = steps(true, keeps);
    for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
  }
}

TEST_CASE(
    "batch norm and what follows it: the bits of eager calls, and the same running statistics") {
  const FuseAll small;
  int64_t fused = 0;
  for (const bool training : {true, false})
    for (const bool last : {true, false})
      for (const DType dtype : {kFloat32, kFloat64, kBFloat16})
        for (const bool grads : {true, false}) {
          const auto program = [&](bool lazily) {
            default_generator().manual_seed(11);
            const auto make = [&](IntArrayRef sizes) {
              const Tensor t = randn(sizes).to(dtype);
              return last && t.dim() == 4 ? t.contiguous(MemoryFormat::ChannelsLast) : t;
            };
            const Tensor x = make({3, 20, 17, 9}).requires_grad_(grads), r = make({3, 20, 17, 9}),
                         w = make({20}).requires_grad_(grads), b = make({20}), mean = zeros({20}),
                         var = ones({20});
            const int64_t before = detail::fused_calls;
            Tensors out;
            {
              const LazyGuard lazy(lazily);
              const Tensor y = relu(batch_norm(x, w, b, mean, var, training, 0.1, 1e-5) + r);
              const Tensor z = (batch_norm(y, w, b, mean, var, training, 0.1, 1e-5) * 2)
                                   .add(mean.reshape({20, 1, 1}));  // after it was moved
              if (grads) z.sum().backward();
              out = {y.detach(), z.detach(), mean, var};
              if (grads) out.insert(out.end(), {x.grad(), w.grad()});
              eval();
            }
            if (lazily) fused += detail::fused_calls - before;
            return out;
          };
          INFO((training ? "training, " : "") << (last ? "channels last, " : "") << dtype);
          const Tensors eager = program(false), lazy = program(true);
          for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
        }
  CHECK(fused > 100);
}

TEST_CASE("convolutions and what follows them: the bits of eager calls") {
  const FuseAll small;
  struct Case {
    int64_t images, in, out, size, pad;
    bool infinite;
  };
  // Winograd by tiles with whole rows and parts of them, odd sizes, and begun again by products;
  // one image at a time; and paths without blocks.
  constexpr Case kCases[] = {{4, 32, 32, 20, 1, false}, {3, 16, 64, 21, 1, false},
                             {2, 48, 32, 33, 0, false}, {4, 32, 32, 20, 1, true},
                             {8, 16, 32, 12, 0, false}, {9, 24, 64, 14, 0, false},
                             {2, 5, 7, 9, 1, false},    {1, 256, 512, 14, 1, false}};
  int64_t fused = 0;
  for (const Case& k : kCases)
    for (const int threads : {1, 2})
      for (const bool kept : {false, true}) {
        const auto program = [&](bool lazily) {
          default_generator().manual_seed(5);
          const Tensor x = randn({k.images, k.in, k.size, k.size}),
                       w = randn({k.out, k.in, 3, 3}) * 0.1, b = randn({k.out}),
                       changed = conv2d(x, w, b, 1, k.pad);
          if (k.infinite) x.select(0, 1).select(0, 2).select(0, 3).fill_(INFINITY);
          const Tensor r = randn(changed.sizes()).contiguous(MemoryFormat::ChannelsLast);
          const int64_t before = detail::fused_calls;
          Tensors out;
          {
            const LazyGuard lazy(lazily);
            const NoGradGuard off;
            Tensor y = conv2d(x, w, b, 1, k.pad);
            const Tensor z = relu(y + r) * b.reshape({-1, 1, 1});
            changed.add_(conv2d(x, w, {}, 1, k.pad));
            out = {z, changed};
            if (kept) out.push_back(y);
            y = Tensor();
            eval();
          }
          if (lazily) fused += detail::fused_calls - before;
          return out;
        };
        INFO(k.images << " x " << k.in << " x " << k.size << ", " << k.out << " outputs");
        const Tensors eager = program(false);
        const int usual = get_num_threads();
        set_num_threads(threads);
        const Tensors lazy = program(true);
        set_num_threads(usual);
        for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], lazy[i]));
      }
  CHECK(fused > 60);
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
