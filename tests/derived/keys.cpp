// Keys of programs, for pairs that are made from the samples of every op and differ in one thing:
// what matters gives another key, what does not gives the same one, and either way a program that
// is replayed gives the bits of eager calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "core/program.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/memory.h"
#include "pellucid/operators.h"
#include "support.h"

namespace pellucid::test {
namespace {

// The call, after one that fixes which of its tensors is which, and before one that reads it.
Tensors around(const Sample& s, bool in_place, bool keeps) {
  Tensors out;
  for (const Tensor& t : tensors_of(s))
    if (is_floating(t.dtype()) && !t.impl().wrapped_number) out.push_back(t.detach().neg());
  const Tensors results = run(s, in_place);
  for (const Tensor& t : results)
    if (is_floating(t.dtype())) out.push_back(t.detach().abs());
  if (keeps) out.insert(out.end(), results.begin(), results.end());
  return out;
}

struct Way {
  bool in_place = false, keeps = true;
};

// The key of what the sample captures; nothing where all of it ran at once. `itself`: whether the
// op is among the calls.
std::optional<detail::ProgramKey> key(const Sample& s, Way way = {}, bool* itself = nullptr) {
  const LazyGuard lazy;
  eval();
  const Tensors kept = around(s, way.in_place, way.keeps);
  const std::vector<detail::CapturedCall*> calls = detail::Capture::own().to_flush();
  if (itself)
    *itself = std::any_of(calls.begin(), calls.end(), [&](auto* c) { return &c->op == s.op; });
  if (calls.empty()) return {};
  const detail::StorageNumbers numbers(detail::Capture::own(), calls);
  return numbers.key();
}

// Eager results, and those of a lazy run, which may find a program.
Tensors results(const Sample& s, bool lazily, Way way = {}) {
  const Sample own = own_memory(s);
  default_generator().manual_seed(1);
  const LazyGuard lazy(lazily);
  Tensors out = around(own, way.in_place, way.keeps);
  eval();
  return out;
}

bool same(const Tensors& a, const Tensors& b) {
  bool all = a.size() == b.size();
  for (size_t i = 0; all && i < a.size(); ++i) all = same_bits(a[i], b[i]);
  return all;
}

// The sample with tensor number n replaced by f(it).
Sample with_tensor(const Sample& s, size_t n, const Map& f) {
  size_t at = 0;
  return map_tensors(s, [&](const Tensor& t) { return at++ == n ? f(t) : t; });
}

Tensor with_offset(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return cat({dense.new_zeros({1}), dense.reshape({-1})}).slice(0, 1).view(t.sizes());
}

// Other values of an argument that is no tensor: most ops refuse some of them.
std::vector<Value> others_of(const Value& v) {
  if (const bool* b = v.as<bool>()) return {Value(!*b)};
  if (const int64_t* i = v.as<int64_t>()) return {Value(*i + 1), Value(*i - 1)};
  if (const double* d = v.as<double>()) return {Value(*d + 0.25), Value(*d * -2)};
  return {};
}

struct Counts {
  int other = 0, same = 0, runs = 0, shared = 0;
};

// Runs both twice and in turns: whichever program is found, it must be the right one.
void check_results(const Sample& a, const Sample& b, Way one, Way other, Counts& counts) {
  Tensors expected[2];
  try {
    expected[0] = results(a, false, one);
    expected[1] = results(b, false, other);
  } catch (const Error&) {
    return;  // the op refuses the other argument
  }
  for (const int which : {0, 0, 1, 0, 1})
    CHECK(same(results(which ? b : a, true, which ? other : one), expected[which]));
  ++counts.runs;
}

void must_differ(const char* what, const Sample& a, const Sample& b, Counts& counts, Way one = {},
                 Way other = {}) {
  INFO(what);
  try {
    bool itself = false;
    const auto k = key(a, one, &itself), l = key(b, other);
    if (!k || !l) return;
    // A view is no call, and what runs at once is not captured: then nothing need differ.
    if (itself) CHECK_FALSE(*k == *l);
    counts.other += !(*k == *l);
  } catch (const Error&) {
    return;  // the op refuses the other one
  }
  check_results(a, b, one, other, counts);
}

void check_sample(const Sample& s, Counts& counts) {
  const Sample a = own_memory(s);
  const auto base = key(a);
  if (!base) return;
  // Other addresses, and another place in the row of random numbers.
  const Tensor unused = rand({3});
  CHECK(*key(own_memory(s)) == *base);
  ++counts.same;

  const Tensors tensors = tensors_of(a);
  for (size_t n = 0; n < tensors.size() && n < 3; ++n) {
    const Tensor& t = tensors[n];
    if (t.impl().wrapped_number || t.numel() == 0) continue;
    must_differ("an offset", a, with_tensor(a, n, with_offset), counts);
    if (t.dim() >= 2 && t.size(-1) > 1 && t.size(-2) > 1 && t.is_contiguous())
      must_differ("strides", a,
                  with_tensor(a, n, [](const Tensor& x) { return x.mT().contiguous().mT(); }),
                  counts);
    if (is_floating(t.dtype()))
      must_differ("a dtype", a,
                  with_tensor(a, n,
                              [](const Tensor& x) {
                                return x.to(x.dtype() == kFloat32 ? kFloat64 : kFloat32);
                              }),
                  counts);
    if (t.dim() > 0 && t.size(0) > 1)
      must_differ("a size", a,
                  with_tensor(a, n, [](const Tensor& x) { return x.slice(0, 1).clone(); }), counts);
    for (size_t m = n + 1; m < tensors.size() && m < 3; ++m) {
      const Tensor& u = tensors[m];
      if (u.dtype() != t.dtype() || u.sizes() != t.sizes() || u.impl().wrapped_number) continue;
      must_differ("memory that is shared", a, with_tensor(a, m, [&](const Tensor&) { return t; }),
                  counts);
      if (!is_floating(t.dtype())) continue;
      size_t at = 0;  // the first call reads them in this order, whatever the second one does
      const Sample swapped = map_tensors(a, [&](const Tensor& x) {
        const size_t i = at++;
        return i == n ? u : i == m ? t : x;
      });
      check_results(a, swapped, {}, {}, counts);
    }
  }
  must_differ("what stays alive", a, a, counts, {}, {.keeps = false});
  if (a.op->info->has_in_place && !a.op->info->is_view)
    must_differ("in place or not", a, own_memory(s), counts, {}, {.in_place = true});

  // Arguments that are no tensors: they are part of the key, or read anew in each run.
  for (size_t i = 0; i < a.args.size() + a.kwargs.size(); ++i) {
    const auto value = [&](Sample& of) -> Value& {
      return i < of.args.size() ? of.args[i] : of.kwargs[i - of.args.size()].value;
    };
    Sample b = own_memory(s);
    for (const Value& v : others_of(value(b))) {
      value(b) = v;
      INFO("another argument: " << text(b));
      try {
        if (const auto other = key(b)) counts.shared += *other == *base;
      } catch (const Error&) { continue; }
      check_results(a, b, {}, {}, counts);
    }
  }

  const auto outside = [&](const char* what, const auto& guard) {
    INFO(what);
    const auto other = [&] {
      const auto scope = guard();
      return key(a);
    }();
    CHECK_FALSE(*other == *base);
  };
  struct Budget {
    Budget() { detail::memory_budget = 12'345; }
    ~Budget() { detail::memory_budget = 0; }
  };
  struct Passes {
    Passes() { graph::PassSet::set(graph::PassSet("-cse")); }
    ~Passes() { graph::PassSet::set(graph::PassSet()); }
  };
  outside("a budget", [] { return Budget(); });
  outside("passes", [] { return Passes(); });
}

TEST_CASE("every op: keys of programs that differ in one thing") {
  const FuseAll small;
  const LazyGuard outermost(false);
  const bool longer = std::getenv("PELLUCID_TEST_LONG") != nullptr;
  Counts counts;
  for (const OpDef* op : library_ops()) {
    if (!has_defined_values(*op) || op->info->mutates) continue;
    size_t of_op = 0;
    for (const Sample& s : samples_of(*op).valid) {
      if (!longer && ++of_op > 2) break;
      INFO(text(s));
      const NoGradGuard off;
      check_sample(s, counts);
    }
  }
  MESSAGE(counts.other << " pairs differ, " << counts.same << " share a program, " << counts.runs
                       << " pairs ran in turns, " << counts.shared
                       << " other numbers share a program");
  CHECK(counts.other > 1000);
  CHECK(counts.runs > 1000);
  CHECK(counts.shared > 20);
}

TEST_CASE("keys: a call that is tracked, its category, and a hidden layout") {
  const Tensor x = rand({2, 3, 4, 4}), w = rand({3, 3, 1, 1});
  const auto key_of = [](const std::function<Tensors()>& f) {
    const LazyGuard lazy;
    eval();
    const Tensors kept = f();
    const std::vector<detail::CapturedCall*> calls = detail::Capture::own().to_flush();
    const detail::StorageNumbers numbers(detail::Capture::own(), calls);
    return numbers.key();
  };
  const Tensor leaf = x.detach().clone().requires_grad_();
  CHECK_FALSE(key_of([&] { return Tensors{x.exp()}; }) ==
              key_of([&] { return Tensors{leaf.exp()}; }));
  CHECK_FALSE(key_of([&] { return Tensors{x.exp()}; }) == key_of([&] {
                const MemoryCategoryGuard category(MemoryCategory::Gradient);
                return Tensors{x.exp()};
              }));
  const Tensor last = x.contiguous(MemoryFormat::ChannelsLast), hidden = last.clone();
  hidden.impl().hidden_layout = true;
  CHECK_FALSE(key_of([&] { return Tensors{relu(last)}; }) ==
              key_of([&] { return Tensors{relu(hidden)}; }));
}

}  // namespace
}  // namespace pellucid::test
