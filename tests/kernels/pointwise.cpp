// The pointwise driver against a naive loop over indices: random shapes, layouts and element types.
#include "kernels/pointwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/parallel.h"
#include "kernels/math.h"

using namespace pellucid;
using namespace pellucid::kernels;

namespace {

struct AddTwice {
  double factor;
  template <class V> V value(V a, V b) const { return a + V(factor) * b; }
};
struct Less {
  template <class V> auto value(V a, V b) const { return a < b; }
};
struct Where {
  template <class M, class V> V value(M m, V a, V b) const { return select(m, a, b); }
};
struct Square {
  template <class V> V value(V x) const { return x * x; }
  template <class V> V grad(V g, V x) const { return V(2) * g * x; }
};
struct Sine {
  static constexpr bool kUsesLibm = true;
  template <class V> static auto ordinary(V x) { return trig_ordinary(x); }
  template <class V> V value(V x) const { return sin(x); }
};
struct Wrap {
  template <class V> V value(V a, V b) const { return a * b + a - b; }
};

using Random = std::mt19937;
int64_t pick(Random& r, std::initializer_list<int64_t> from) {
  return from.begin()[r() % from.size()];
}

/// A tensor with its own memory: any order of dimensions, gaps, and (for inputs) repeated
/// dimensions.
struct Strided {
  std::vector<char> memory;
  std::vector<int64_t> strides;
  DType dtype;

  Strided(Random& r, const std::vector<int64_t>& shape, DType t, bool may_repeat)
      : strides(shape.size()), dtype(t) {
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (r() % 2)
      std::shuffle(order.begin(), order.end(), r);
    else
      std::reverse(order.begin(), order.end());  // the last dimension innermost
    int64_t next = r() % 4 == 0 ? 2 : 1;
    for (size_t d : order) {
      if (may_repeat && r() % 4 == 0) continue;  // stride 0
      strides[d] = next;
      next *= std::max<int64_t>(1, shape[d]) + (r() % 6 == 0 ? 3 : 0);
    }
    memory.resize(static_cast<size_t>((next + 8) * element_size(t)));
    for (int64_t i = 0; i < next + 8; ++i)
      set(i, static_cast<double>(t == kBool ? r() % 2 : r() % 4));
  }
  double get(int64_t i) const {
    return visit(dtype, [&](auto v) {
      std::memcpy(&v, memory.data() + i * element_size(dtype), sizeof v);
      return static_cast<double>(v);
    });
  }
  void set(int64_t i, double x) {
    visit(dtype, [&](auto v) {
      v = static_cast<decltype(v)>(x);
      std::memcpy(memory.data() + i * element_size(dtype), &v, sizeof v);
    });
  }
  Operand operand(DType compute) { return {memory.data(), dtype, compute, strides.data()}; }
};

std::vector<int64_t> random_shape(Random& r) {
  std::vector<int64_t> shape(r() % 5);
  int64_t numel = 1;
  for (int64_t& n : shape) {
    n = r() % 40 == 0 ? 0 : pick(r, {1, 2, 3, 5, 10, 17, 64, 130, 700});
    if (numel * n > 40000) n = 2;
    numel *= std::max<int64_t>(n, 1);
  }
  return shape;
}

/// Calls f(index) for every index of the shape.
template <class F> void for_each_index(const std::vector<int64_t>& shape, F f) {
  std::vector<int64_t> index(shape.size());
  for (int64_t n : shape)
    if (n == 0) return;
  for (;;) {
    f(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}
int64_t offset(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}
DType random_dtype(Random& r) { return static_cast<DType>(r() % kDTypeCount); }

TEST_CASE("pointwise: random shapes, layouts and dtypes equal a naive loop") {
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    Random r(7);
    for (int trial = 0; trial < 400; ++trial) {
      const std::vector<int64_t> shape = random_shape(r);
      const DType compute =
          static_cast<DType>(pick(r, {int(kFloat32), int(kFloat64), int(kInt32), int(kInt64)}));
      const bool plain = r() % 3 == 0;
      Strided out(r, shape, plain ? compute : random_dtype(r), false);
      Strided a(r, shape, plain ? compute : random_dtype(r), true),
          b(r, shape, plain ? compute : random_dtype(r), true);
      Strided want = out;
      for_each_index(shape, [&](const auto& i) {
        want.set(offset(i, want.strides),
                 a.get(offset(i, a.strides)) + 2 * b.get(offset(i, b.strides)));
      });
      const AddTwice f{2};
      const Operand in[] = {a.operand(compute), b.operand(compute)};
      run_pointwise(loop_for(pointwise_loops<AddTwice, ValueKind<2>, AllTypes>(), compute), &f,
                    shape, out.operand(compute), in, trial % 2 ? 1 : 50);
      INFO("trial " << trial << " shape " << to_string(IntArrayRef(shape)) << " isa "
                    << std::string(isa_name(level)));
      CHECK(out.memory == want.memory);  // gaps must be untouched too
    }
  }
}

TEST_CASE("pointwise: in place, also with converted types and strides") {
  Random r(11);
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<int64_t> shape = random_shape(r);
    Strided out(r, shape, random_dtype(r), false), b(r, shape, random_dtype(r), true);
    Strided want = out;
    for_each_index(shape, [&](const auto& i) {
      const int64_t o = offset(i, want.strides);
      want.set(o, want.get(o) + 3 * b.get(offset(i, b.strides)));
    });
    const AddTwice f{3};
    const Operand in[] = {out.operand(kFloat32), b.operand(kFloat32)};
    run_pointwise(pointwise_loops<AddTwice, ValueKind<2>>().f32, &f, shape, out.operand(kFloat32),
                  in, 1);
    INFO("trial " << trial << " shape " << to_string(IntArrayRef(shape)));
    CHECK(out.memory == want.memory);
  }
}

TEST_CASE("pointwise: a transposed input of a large output is visited in tiles") {
  Random r(3);
  const std::vector<int64_t> shape = {3, 150, 333};
  for (DType t : {kFloat32, kFloat16, kUInt8, kFloat64}) {
    Strided out(r, shape, kFloat32, false), a(r, shape, t, false), b(r, shape, kFloat32, true);
    out.strides = {150 * 333, 333, 1};
    a.strides = {150 * 333, 1, 150};
    b.strides = {0, 1, 150};
    for (Strided* s : {&out, &a, &b}) s->memory.resize(static_cast<size_t>(3 * 150 * 333 * 8));
    for (int64_t i = 0; i < 3 * 150 * 333; ++i) {
      a.set(i, static_cast<double>(i % 113));
      b.set(i, static_cast<double>(i % 57));
    }
    Strided want = out;
    for_each_index(shape, [&](const auto& i) {
      want.set(offset(i, want.strides), a.get(offset(i, a.strides)) + b.get(offset(i, b.strides)));
    });
    const AddTwice f{1};
    const Operand in[] = {a.operand(kFloat32), b.operand(kFloat32)};
    run_pointwise(pointwise_loops<AddTwice, ValueKind<2>>().f32, &f, shape, out.operand(kFloat32),
                  in, 1);
    CHECK(out.memory == want.memory);
  }
}

TEST_CASE("pointwise: predicates, selection and gradients") {
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const int64_t shape[] = {37}, unit[] = {1};
    std::vector<float> a(37), b(37), out(37);
    std::vector<uint8_t> mask(37);
    for (size_t i = 0; i < 37; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(37 - i);
    }
    const auto of = [&](void* p, DType t) { return Operand{static_cast<char*>(p), t, t, unit}; };
    const Operand ab[] = {of(a.data(), kFloat32), of(b.data(), kFloat32)};
    const Less less;
    run_pointwise(pointwise_loops<Less, PredicateKind<2>, AllTypes>().f32, &less, shape,
                  of(mask.data(), kBool), ab, 1);
    for (size_t i = 0; i < 37; ++i) CHECK(mask[i] == (a[i] < b[i] ? 1 : 0));
    mask[0] = 200;  // a true that nobody of us wrote
    const Operand mab[] = {of(mask.data(), kBool), ab[0], ab[1]};
    const Where where;
    run_pointwise(pointwise_loops<Where, SelectKind<3>, AllTypes>().f32, &where, shape,
                  of(out.data(), kFloat32), mab, 1);
    for (size_t i = 0; i < 37; ++i) CHECK(out[i] == std::min(a[i], b[i]));
    const Square square;
    run_pointwise(pointwise_loops<Square, GradKind<2>>().f32, &square, shape,
                  of(out.data(), kFloat32), ab, 1);
    for (size_t i = 0; i < 37; ++i) CHECK(out[i] == 2 * a[i] * b[i]);
  }
}

TEST_CASE("pointwise: integers wrap, and the policy leaves out what is not asked for") {
  const LoopTable& t = pointwise_loops<Wrap, ValueKind<2>, IntegerTypes>();
  CHECK_FALSE(static_cast<bool>(t.f32));
  const int32_t a[] = {INT32_MAX, INT32_MIN, 65536}, b[] = {2, 3, 65536};
  int32_t out[3];
  const void* in[] = {a, b};
  const Wrap f;
  t.i32(&f, out, in, 3);
  for (int i = 0; i < 3; ++i) {
    const int64_t wide = int64_t{a[i]} * b[i] + a[i] - b[i];
    CHECK(out[i] == static_cast<int32_t>(static_cast<uint32_t>(wide)));
  }
}

TEST_CASE("pointwise: arguments beyond the polynomial's range go to libm, in place too") {
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    std::vector<float> x(1000), want(1000);
    for (size_t i = 0; i < 1000; ++i) {
      x[i] = i % 97 == 0 ? 1e10f + static_cast<float>(i) * 1e6f : static_cast<float>(i) * 0.1f;
      want[i] = static_cast<float>(std::sin(static_cast<double>(x[i])));
    }
    const int64_t shape[] = {1000}, unit[] = {1};
    const Operand o{reinterpret_cast<char*>(x.data()), kFloat32, kFloat32, unit};
    const Sine f;
    run_pointwise(pointwise_loops<Sine, ValueKind<1>>().f32, &f, shape, o, {&o, 1}, 4);
    for (size_t i = 0; i < 1000; ++i) CHECK(std::fabs(x[i] - want[i]) <= 1.2e-7f);
  }
}

TEST_CASE("pointwise: the same bits with and without threads") {
  Random r(5);
  const std::vector<int64_t> shape = {513, 1031};
  Strided a(r, shape, kFloat32, false), out(r, shape, kFloat32, false);
  a.strides = {1031, 1};
  out.strides = {1031, 1};
  a.memory.resize(513 * 1031 * 4);
  out.memory.resize(513 * 1031 * 4);
  for (int64_t i = 0; i < 513 * 1031; ++i) a.set(i, static_cast<double>(i) * 1e-4);
  Strided serial = out;
  const Sine f;
  const Operand in = a.operand(kFloat32);
  const InnerLoop loop = pointwise_loops<Sine, ValueKind<1>>().f32;
  run_pointwise(loop, &f, shape, out.operand(kFloat32), {&in, 1}, 4);
  {
    const SerialGuard guard;
    run_pointwise(loop, &f, shape, serial.operand(kFloat32), {&in, 1}, 4);
  }
  CHECK(out.memory == serial.memory);
}

TEST_CASE("pointwise: a result too large for the caches, with a ragged end") {
  const int64_t n = (32 << 20) / 4 + 1037, strides[] = {1};
  std::vector<float> x(static_cast<size_t>(n)), room(static_cast<size_t>(n) + 32, -1);
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 1009);
  void* aligned = room.data();
  size_t left = room.size() * sizeof(float);
  float* const out = static_cast<float*>(std::align(64, sizeof(float), aligned, left));
  const Square f;
  const InnerLoop loop = pointwise_loops<Square, ValueKind<1>>().f32;
  const auto operand = [&](float* data) {
    return Operand{reinterpret_cast<char*>(data), kFloat32, kFloat32, strides};
  };
  const auto wrong = [&](const float* got) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += got[i] != static_cast<float>(i % 1009 * (i % 1009));
    return count;
  };
  const Operand in = operand(x.data());
  run_pointwise(loop, &f, {&n, 1}, operand(out), {&in, 1}, 1);
  CHECK(wrong(out) == 0);
  CHECK(out[n] == -1);
  run_pointwise(loop, &f, {&n, 1}, in, {&in, 1}, 1);  // in place
  CHECK(wrong(x.data()) == 0);
}

}  // namespace
