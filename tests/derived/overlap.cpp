// Ops that write to a tensor whose memory they also read: each source of an in-place form and of a
// mutated argument is made to share memory with what is written, in several ways. The result must
// be that of a call on copies.
#include <doctest/doctest.h>

#include "base/random.h"
#include "derived/support.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::test;

TEST_SUITE_BEGIN("derived");

namespace {

/// Where two tensors lie in one buffer, in elements.
struct Placement {
  std::string_view name;
  int64_t first, second;
};
constexpr Placement kPlacements[] = {
    {"from the same element", 0, 0}, {"the second before", 1, 0}, {"the second behind", 0, 1}};

/// The sample with its tensors `a` and `b` (in the order of tensors_of) sharing one buffer; the
/// values are those of `b` where they meet.
Sample share_buffer(const Sample& s, size_t a, size_t b, const Placement& at) {
  const Tensors all = tensors_of(s);
  const int64_t length = std::max(at.first + all[a].numel(), at.second + all[b].numel());
  const Tensor buffer = zeros({length}, all[a].dtype());
  const auto place = [&](const Tensor& t, int64_t offset) {
    Tensor view = buffer.slice(0, offset, offset + t.numel()).view(t.sizes());
    view.copy_(t);
    return view;
  };
  const Tensor first = place(all[a], at.first), second = place(all[b], at.second);
  size_t i = 0;
  return map_tensors(s, [&](const Tensor& t) {
    const size_t n = i++;
    return n == a ? first : n == b ? second : t.clone();
  });
}

/// The sample with tensor `b` being a transposed view of tensor `a`.
Sample transpose_shared(const Sample& s, size_t a, size_t b) {
  const Tensor self = tensors_of(s)[a].clone();
  size_t i = 0;
  return map_tensors(s, [&](const Tensor& t) {
    const size_t n = i++;
    return n == a ? self : n == b ? self.transpose(0, 1) : t.clone();
  });
}

Sample copied(const Sample& s) {
  return map_tensors(s, [](const Tensor& t) { return t.impl().wrapped_number ? t : t.clone(); });
}

/// A number that stands for a tensor has no memory to share.
bool can_share(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.numel() > 0 && b.numel() > 0 && !a.impl().wrapped_number &&
         !b.impl().wrapped_number;
}

/// All ways in which tensors `a` and `b` of the sample can share memory.
std::vector<std::pair<std::string, Sample>> shared_samples(const Sample& s, size_t a, size_t b) {
  const Tensors all = tensors_of(s);
  std::vector<std::pair<std::string, Sample>> out;
  if (!can_share(all[a], all[b])) return out;
  for (const Placement& at : kPlacements) out.emplace_back(at.name, share_buffer(s, a, b, at));
  const IntArrayRef sizes = all[a].sizes();
  if (sizes.size() == 2 && sizes[0] == sizes[1] && all[b].sizes() == sizes)
    out.emplace_back("transposed", transpose_shared(s, a, b));
  return out;
}

/// The results, or none where the call throws an Error.
std::optional<Tensors> attempt(const Sample& s, bool in_place) {
  default_generator().manual_seed(1);
  try {
    return run(s, in_place);
  } catch (const Error&) { return std::nullopt; }
}

/// Floats as small whole numbers, so that self and an index can share memory.
Tensor as_index(const Tensor& t) {
  return t.is_floating_point() && !t.impl().wrapped_number ? t.abs().to(kInt64).remainder(2) : t;
}

/// Returns how many calls shared memory.
int check_in_place(const Sample& s) {
  int calls = 0;
  const size_t count = tensors_of(s).size();
  for (size_t k = 1; k < count; ++k)
    for (const auto& found : shared_samples(s, 0, k)) {
      const std::string& way = found.first;
      const Sample& shared = found.second;
      INFO(text(s) << " in place, tensor " << k << " and self share memory: " << way);
      const Tensor self = *shared.args[0].as<Tensor>();
      const std::optional<Tensors> expected = attempt(copied(shared), true);
      const std::optional<Tensors> got = attempt(shared, true);
      REQUIRE(expected.has_value() == got.has_value());
      if (!expected) continue;
      ++calls;
      CHECK(same_bits(self, (*expected)[0]));
    }
  return calls;
}

}  // namespace

TEST_CASE("every op: an in-place form whose source shares its memory gives what copies give") {
  int calls = 0;
  for (const OpDef* op : library_ops()) {
    if (!op->info->has_in_place || op->info->is_view) continue;
    for (const Sample& s : samples_of(*op).valid) {
      if (s.args.empty() || !s.args[0].as<Tensor>() || !s.args[0].as<Tensor>()->defined()) continue;
      calls += check_in_place(s);
      calls += check_in_place(map_tensors(s, as_index));
    }
  }
  CHECK(calls > 300);  // the test tests something
}

TEST_CASE("every op: a mutated argument that shares memory with another") {
  int calls = 0, refused = 0;
  for (const OpDef* op : library_ops()) {
    if (!op->info->mutates) continue;
    std::vector<bool> mutated;
    for (const Arg& a : op->info->args)
      if (a.type == ArgType::Tensor) mutated.push_back(a.mutated);
    for (const Sample& s : samples_of(*op).valid) {
      const Tensors all = tensors_of(s);
      if (all.size() != mutated.size()) continue;  // with all optional arguments
      for (size_t a = 0; a < all.size(); ++a)
        for (size_t b = 0; b < all.size(); ++b) {
          if (a == b || !mutated[a]) continue;
          for (const auto& found : shared_samples(s, a, b)) {
            const std::string& way = found.first;
            const Sample& shared = found.second;
            INFO(text(s) << ", tensors " << a << " and " << b << " share memory: " << way);
            const Tensors before = tensors_of(copied(shared)), after = tensors_of(shared);
            const int64_t x = after[a].storage_offset(), y = after[b].storage_offset();
            const bool meet = x < y + after[b].numel() && y < x + after[a].numel();
            if (mutated[b] && meet) {
              CHECK_THROWS_AS(run(shared), ValueError);
              for (size_t i = 0; i < all.size(); ++i) CHECK(same_bits(before[i], after[i]));
              ++refused;
            } else if (!mutated[b]) {
              const Sample copies = copied(shared);
              const std::optional<Tensors> expected = attempt(copies, false);
              REQUIRE(expected.has_value() == attempt(shared, false).has_value());
              if (!expected) continue;
              ++calls;
              const Tensors wanted = tensors_of(copies);
              CHECK(same_bits(after[a], wanted[a]));
            }
          }
        }
    }
  }
  CHECK(calls > 10);
  CHECK(refused > 10);
}

TEST_CASE("indexed writes whose source is the tensor itself") {
  const Tensor order = tensor({3, 2, 1, 0});
  const auto changed = [](const std::function<void(Tensor)>& change) {
    Tensor x = arange(4.0);
    change(x);
    return x;
  };
  const Tensor reversed = tensor({3.0, 2.0, 1.0, 0.0}, kFloat32), all_three = full({4}, 3.0);
  CHECK(equal(changed([&](Tensor x) { x.index_put_({order}, x); }), reversed));
  CHECK(equal(changed([&](Tensor x) { x.index_copy_(0, order, x); }), reversed));
  CHECK(equal(changed([&](Tensor x) { x.index_add_(0, order, x); }), all_three));
  CHECK(equal(changed([&](Tensor x) { x.scatter_(0, order, x); }), reversed));
  CHECK(equal(changed([&](Tensor x) { x.scatter_add_(0, order, x); }), all_three));
  CHECK(equal(changed([&](Tensor x) {
                x.masked_scatter_(tensor({false, true, true, true}), x);
              }),
              tensor({0.0, 0.0, 1.0, 2.0}, kFloat32)));
  CHECK(equal(changed([](Tensor x) { x.slice(0, 1, 4).copy_(x.slice(0, 0, 3)); }),
              tensor({0.0, 0.0, 1.0, 2.0}, kFloat32)));
  const Tensor ints = tensor({1, 2, 3, 0});
  ints.index_put_({ints}, tensor({9, 8, 7, 6}));
  CHECK(equal(ints, tensor({6, 9, 8, 7})));
}

TEST_CASE("a write whose source shares memory through another storage") {
  std::vector<float> values{0, 1, 2, 3, 4};
  const Tensor a = from_blob(values.data(), {4}), b = from_blob(values.data() + 1, {4});
  b.copy_(a);
  CHECK(values == std::vector<float>{0, 0, 1, 2, 3});
  b.add_(a);
  CHECK(values == std::vector<float>{0, 0, 1, 3, 5});
}

TEST_CASE("interleaved views of one tensor do not share elements") {
  const Tensor x = arange(12.0).view({3, 4});
  const Tensor even = x.slice(1, 0, 4, 2), odd = x.slice(1, 1, 4, 2);
  const int64_t before = memory_stats().allocations;
  even.add_(odd);
  CHECK(memory_stats().allocations == before);  // nothing was copied
  CHECK(equal(even, tensor({{1.0, 5.0}, {9.0, 13.0}, {17.0, 21.0}}, kFloat32)));
}

TEST_CASE("a tensor with several elements in one place is not written to") {
  const Tensor x = ones({1}).expand({3});
  const std::vector<std::function<void()>> writes = {
      [&] { x.add_(1); }, [&] { x.copy_(ones({3})); }, [&] { x.normal_(); },
      [&] { x.index_put_({tensor({0})}, ones({1})); },
      [&] { x.masked_fill_(ones({3}, kBool), 2); }};
  for (const auto& write : writes) CHECK_THROWS_AS(write(), ValueError);
}

TEST_SUITE_END();
