// Captured programs of many calls: work and memory grow with the calls, and nothing recurses once
// for each of them. 10^6 calls with PELLUCID_TEST_LONG, 5 * 10^4 else.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "core/program.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/graph.h"
#include "pellucid/lazy.h"
#include "pellucid/memory.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/program.h"

namespace pellucid {
namespace {

// Calls in all shapes that programs have, about 13 n of them.
Tensors many_calls(const Tensor& x, int64_t n) {
  Tensors out;
  Tensor chain = x, dropped = x;
  for (int64_t i = 0; i < n; ++i) {
    chain = chain.neg() + static_cast<double>(i);
    dropped = dropout(dropped, 0.1, true);
  }
  out.push_back(chain);
  out.push_back(dropped);

  Tensors level;  // one tensor read by all, and a balanced tree of sums
  for (int64_t i = 0; i < n; ++i) level.push_back(x * static_cast<double>(i));
  while (level.size() > 1) {
    Tensors next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  out.push_back(level[0]);

  for (int64_t i = 0; i < n; ++i) out.push_back(zeros_like(x));  // independent, equal, all kept
  const Tensor wide = cat(Tensors(static_cast<size_t>(std::max<int64_t>(n, 10'000)), x)),
               changed = x + 1;
  Tensor sum = x;
  for (int64_t i = 0; i < n; ++i) {
    wide.slice(0, i, i + 1).add_(x);               // views of one storage are written
    sum = sum + wide.slice(0, i, i + 1);           // and read
    changed.add_(tensor(static_cast<double>(i)));  // one storage in place
    out[static_cast<size_t>(i) + 3].add_(x);       // and many
  }
  out.insert(out.end(), {wide, changed, sum});

  const AutoGradMode on(true);
  const Tensor leaf = x.detach().requires_grad_();
  Tensor y = leaf, base = leaf * 1;
  for (int64_t i = 0; i < n; ++i) y = dropout(y.sin(), 0.2, true);
  for (int64_t i = 0; i < n / 4; ++i) base.slice(0, 0, 1).mul_(0.999);
  for (const Tensor& g : autograd::grad({y.sum() + base.sum()}, {leaf})) out.push_back(g);
  out.push_back(base.detach());
  return out;
}

bool same(const Tensors& a, const Tensors& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return x.equal(y); });
}

TEST_CASE("scale: programs of many calls are traced, sealed, compiled, captured and explained") {
  const int64_t n = std::getenv("PELLUCID_TEST_LONG") ? 80'000 : 4'000;
  const NoGradGuard off;
  const Tensor x = full({1}, 0.5);
  const auto call = [n](const Tensor& t) { return many_calls(t, n); };
  manual_seed(3);
  const Tensors expected = [&] {
    const LazyGuard at_once(false);
    return many_calls(x, n);
  }();
  detail::ProgramCache::get().clear();
  const auto check = [&](const std::function<Tensors()>& f) {
    manual_seed(3);
    const Tensors found = f();
    CHECK(same(found, expected));
  };
  SUBCASE("traced") {
    const Program p = trace([&](const Tensors& in) { return call(in[0]); }, {{"x", x}});
    CHECK(p.calls() > 12 * n);
    check([&] { return p.run(Tensors{x}); });
    CHECK(p.stages().size() == 7);
    CHECK(p.explain().calls == p.calls());
    CHECK(!p.text().empty());
    CHECK(!make_dot(p).source().empty());
  }
  SUBCASE("sealed") {
    auto f = compile(call);
    f.seal();
    for (int i = 0; i < 3; ++i) check([&] { return f(x); });
  }
  SUBCASE("compiled") {
    auto f = compile(call, CompileMode::Always);
    for (int i = 0; i < 3; ++i) check([&] { return f(x); });
    CHECK(!f.explain(x).text().empty());
  }
  SUBCASE("compiled with a budget of memory") {
    auto f = compile(call, CompileMode::Always, 1000);
    for (int i = 0; i < 2; ++i) check([&] { return f(x); });
  }
  SUBCASE("captured") {
    const LazyGuard lazy;
    check([&] { return call(x); });
  }
  detail::ProgramCache::get().clear();
}

TEST_CASE("scale: many pending tensors that are read one by one") {
  const LazyGuard lazy;
  const NoGradGuard off;
  eval();
  for (const bool backwards : {false, true}) {
    Tensors out;
    for (int64_t i = 0; i < 50'000; ++i) out.push_back(ones({1}) * static_cast<double>(i));
    if (backwards) std::reverse(out.begin(), out.end());
    double sum = 0;
    for (const Tensor& t : out) sum += t.item<double>();
    CHECK(sum == 50'000.0 * 49'999 / 2);
  }
  // A few questions leave the others pending.
  Tensors few;
  for (int64_t i = 0; i < 1'000; ++i) few.push_back(ones({1}) * static_cast<double>(i));
  for (size_t i = 0; i < 100; ++i) CHECK(few[i * 7].item<double>() == static_cast<double>(i * 7));
  CHECK(is_pending(few[999]));
}

TEST_CASE("scale: a pending call takes some hundred bytes, and all of it is given back") {
  const NoGradGuard off;
  const Tensor x = ones({1});
  const int64_t before = memory_stats().allocated;
  {
    const LazyGuard lazy;
    Tensor y = x;
    for (int64_t i = 0; i < 60'000; ++i) y = y.neg();
    CHECK(memory_stats().allocated == before);  // results have no memory yet
  }
  CHECK(memory_stats().allocated == before);
}

}  // namespace
}  // namespace pellucid
