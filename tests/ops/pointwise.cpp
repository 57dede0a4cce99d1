// Semantics of pointwise ops that no derived test states: promotion, integers, in-place rules,
// aliasing, layouts. The expected dtypes and values are PyTorch's.
#include <doctest/doctest.h>

#include <limits>

#include "derived/support.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using pellucid::test::values;

TEST_SUITE_BEGIN("pointwise");

namespace {

const DType kAllTypes[] = {kUInt8,   kInt8,     kInt16,   kInt32,   kInt64,
                           kFloat16, kBFloat16, kFloat32, kFloat64, kBool};

Tensor of(std::initializer_list<double> v, DType t = kFloat32) {
  return tensor(std::vector<double>(v), TensorOptions(kFloat64)).to(t);
}

using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("promotion of two tensors follows PyTorch's table, in both orders") {
  for (DType a : kAllTypes)
    for (DType b : kAllTypes) {
      CAPTURE(a);
      CAPTURE(b);
      const DType expected = promote_types(a, b);
      CHECK(add(ones({2}, a), ones({2}, b)).dtype() == expected);
      CHECK(mul(ones({2}, b), ones({2}, a)).dtype() == expected);
      CHECK(div(ones({2}, a), ones({2}, b)).dtype() ==
            (is_floating(expected) ? expected : kFloat32));
      CHECK(lt(ones({2}, a), ones({2}, b)).dtype() == kBool);
      CHECK(values(add(ones({2}, a), ones({2}, b))) ==
            (expected == kBool ? Doubles{1, 1} : Doubles{2, 2}));
      CHECK(values(eq(ones({2}, a), ones({2}, b))) == Doubles{1, 1});
    }
  CHECK(promote_types(kUInt8, kInt8) == kInt16);
  CHECK(promote_types(kFloat16, kBFloat16) == kFloat32);
  CHECK(promote_types(kInt64, kFloat16) == kFloat16);
}

TEST_CASE("numbers and 0-dim tensors decide only by their category") {
  CHECK(add(ones({2}, kInt8), 1000).dtype() == kInt8);
  CHECK(add(ones({2}, kInt8), 1.5).dtype() == kFloat32);
  CHECK(add(ones({2}, kFloat16), 1.5).dtype() == kFloat16);
  CHECK(add(ones({2}, kBool), 1).dtype() == kInt64);
  CHECK(add(ones({2}, kBool), true).dtype() == kBool);
  CHECK(add(ones({2}, kFloat32), ones({}, kFloat64)).dtype() == kFloat32);
  CHECK(add(ones({2}, kInt32), ones({}, kFloat64)).dtype() == kFloat64);
  CHECK(add(ones({}, kInt32), ones({}, kInt64)).dtype() == kInt64);
  CHECK(add(ones({}, kInt32), 2).dtype() == kInt32);
  CHECK(invoke("where", std::vector<Value>{ones({2}, kBool), 1, 2})[0].tensor().dtype() == kInt64);
  CHECK(invoke("where", std::vector<Value>{ones({2}, kBool), 1.0, 2})[0].tensor().dtype() ==
        kFloat32);
  CHECK(clamp(ones({2}, kInt64), 0.5, std::nullopt).dtype() == kFloat32);
}

TEST_CASE("a number is rounded to the promoted type before integers or comparisons see it") {
  CHECK(values(lt(of({1}, kUInt8), -1)) == Doubles{1});  // -1 is 255
  CHECK(values(sub(of({1}, kUInt8), 2)) == Doubles{255});
  CHECK(values(floor_divide(of({1}, kUInt8), -1)) == Doubles{0});
  CHECK(values(eq(of({0.1}, kFloat16), 0.1)) == Doubles{1});
  CHECK(values(eq(of({0.1}, kFloat32), 0.1)) == Doubles{1});
  CHECK(values(eq(of({0.1}, kFloat32), of({0.1}, kFloat64))) == Doubles{0});
}

TEST_CASE("integers wrap, divide as Python does and raise on zero") {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  const Tensor small = full({2}, least, kInt64);
  CHECK(floor_divide(small, -1)[0].item<int64_t>() == least);
  CHECK(remainder(small, -1)[0].item<int64_t>() == 0);
  CHECK(fmod(small, -1)[1].item<int64_t>() == 0);
  CHECK(neg(small)[0].item<int64_t>() == least);
  CHECK(abs(small)[0].item<int64_t>() == least);
  CHECK(sub(small, 1)[0].item<int64_t>() == std::numeric_limits<int64_t>::max());
  CHECK(values(neg(of({-128, 127}, kInt8))) == Doubles{-128, -127});
  CHECK(values(add(of({127}, kInt8), 1)) == Doubles{-128});
  CHECK(values(mul(of({16}, kUInt8), 17)) == Doubles{16});

  const Tensor a = of({7, -7, 7, -7}, kInt64), b = of({3, 3, -3, -3}, kInt64);
  CHECK(values(floor_divide(a, b)) == Doubles{2, -3, -3, 2});
  CHECK(values(remainder(a, b)) == Doubles{1, 2, -2, -1});
  CHECK(values(fmod(a, b)) == Doubles{1, -1, 1, -1});
  CHECK(values(div(a, b, "trunc")) == Doubles{2, -2, -2, 2});
  CHECK(values(div(a, b, "floor")) == Doubles{2, -3, -3, 2});
  CHECK(div(a, b).dtype() == kFloat32);

  for (const auto& op : {"floor_divide", "remainder", "fmod"}) {
    CAPTURE(op);
    CHECK_THROWS_AS(invoke(op, std::vector<Value>{a, Value(0)}), ValueError);
    CHECK_THROWS_AS(invoke(op, std::vector<Value>{a, of({1, 2, 0, 3}, kInt64)}), ValueError);
    CHECK_NOTHROW(invoke(op, std::vector<Value>{of({1, 2}), Value(0)}));
  }
  const Tensor kept = a.clone();
  CHECK_THROWS_AS(kept.floor_divide_(of({1, 2, 0, 3}, kInt64)), ValueError);
  CHECK(equal(kept, a));
}

TEST_CASE("integer powers") {
  CHECK(values(pow(of({2, -3, 0}, kInt64), 3)) == Doubles{8, -27, 0});
  CHECK(values(pow(of({2, 1, -1, -1, 0}, kInt64), of({-1, -1, -1, -2, -1}, kInt64))) ==
        Doubles{0, 1, -1, 1, 0});
  CHECK(values(pow(of({3}, kInt64), of({39}, kInt64)) - 4052555153018976267) == Doubles{0});
  CHECK(values(pow(2, of({3, 2}, kInt64))) == Doubles{8, 4});
  CHECK(pow(ones({2}, kBool), 2).dtype() == kInt64);
  CHECK(square(ones({2}, kBool)).dtype() == kInt64);
  CHECK_THROWS_AS(pow(of({2}, kInt64), -1), ValueError);
  CHECK(values(pow(of({2}, kInt64), -1.0)) == Doubles{0.5});
}

TEST_CASE("bool: add is or, mul is and, sub and neg raise") {
  const Tensor a = of({1, 1, 0, 0}, kBool), b = of({1, 0, 1, 0}, kBool);
  CHECK(values(add(a, b)) == Doubles{1, 1, 1, 0});
  CHECK(values(mul(a, b)) == Doubles{1, 0, 0, 0});
  CHECK(values(maximum(a, b)) == Doubles{1, 1, 1, 0});
  CHECK(values(bitwise_not(a)) == Doubles{0, 0, 1, 1});
  CHECK(values(logical_xor(a, b)) == Doubles{0, 1, 1, 0});
  CHECK(values(div(a, b.logical_or(a))).at(0) == 1);
  CHECK_THROWS_AS(sub(a, b), TypeError);
  CHECK_THROWS_AS(sub(a, 1), TypeError);
  CHECK_THROWS_AS(sub(of({1}, kInt64), a), TypeError);
  CHECK_THROWS_AS(neg(a), TypeError);
  CHECK_THROWS_AS(relu(a), TypeError);
  CHECK_THROWS_AS(floor_divide(a, b), TypeError);
}

TEST_CASE("shifts push bits out and keep the sign") {
  const Tensor x = of({-128, 127, 5}, kInt8);
  CHECK(values(bitwise_left_shift(x, 1)) == Doubles{0, -2, 10});
  CHECK(values(bitwise_left_shift(x, 9)) == Doubles{0, 0, 0});
  CHECK(values(bitwise_right_shift(x, 1)) == Doubles{-64, 63, 2});
  CHECK(values(bitwise_right_shift(x, 9)) == Doubles{-1, 0, 0});
  CHECK(values(bitwise_left_shift(of({1}, kInt64), 65)) == Doubles{0});
  CHECK(values(bitwise_left_shift(of({1}, kInt64), -1)) == Doubles{0});
  CHECK(values(bitwise_right_shift(of({-1}, kInt64), 70)) == Doubles{-1});
  CHECK_THROWS_AS(bitwise_and(of({1}), of({1})), TypeError);
}

TEST_CASE("integers stay integers where PyTorch keeps them, and become floating elsewhere") {
  const Tensor x = of({-2, 0, 3}, kInt64);
  for (const char* op : {"abs", "neg", "sign", "square", "relu", "floor", "ceil", "round", "trunc",
                         "hardtanh", "relu6", "nan_to_num"}) {
    CAPTURE(op);
    CHECK(invoke(op, std::vector<Value>{x})[0].tensor().dtype() == kInt64);
  }
  for (const char* op : {"exp", "sqrt", "sin", "sigmoid", "tanh", "erf", "reciprocal", "deg2rad",
                         "logit", "softsign"}) {
    CAPTURE(op);
    CHECK(invoke(op, std::vector<Value>{x})[0].tensor().dtype() == kFloat32);
  }
  for (const char* op : {"silu", "gelu", "mish", "elu", "leaky_relu", "softplus", "log_sigmoid",
                         "hardswish", "frac"}) {
    CAPTURE(op);
    CHECK_THROWS_AS(invoke(op, std::vector<Value>{x}), TypeError);
  }
}

TEST_CASE("an in-place op that fails leaves the tensor as it was") {
  const Tensor x = of({1, 2, 3}, kInt64), before = x.clone();
  const uint32_t version = x._version();
  CHECK_THROWS_AS(x.add_(1.5), TypeError);
  CHECK_THROWS_AS(x.div_(2), TypeError);
  CHECK_THROWS_AS(x.add_(of({1, 2}, kInt64)), ShapeError);
  CHECK_THROWS_AS(x.add_(ones({2, 3}, kInt64)), ShapeError);
  CHECK_THROWS_AS(x.pow_(-1), ValueError);
  CHECK_THROWS_AS(of({1}, kBool).add_(1), TypeError);
  CHECK(equal(x, before));
  CHECK(x._version() == version);
}

TEST_CASE("an in-place op computes in the promoted type and stores in its own") {
  const Tensor x = of({1, 2, 3});
  x.add_(of({0.5, 0.5, 0.5}, kFloat64));
  CHECK(x.dtype() == kFloat32);
  CHECK(values(x) == Doubles{1.5, 2.5, 3.5});
  x.gt_(2);
  CHECK(x.dtype() == kFloat32);
  CHECK(values(x) == Doubles{0, 1, 1});
  const Tensor h = of({1, 2}, kFloat16);
  h.mul_(0.1).add_(h);
  CHECK(h.dtype() == kFloat16);
  CHECK(values(h)[0] == doctest::Approx(0.2).epsilon(1e-3));
}

TEST_CASE("in-place with an overlapping view of itself is as if it were copied first") {
  const Tensor x = arange(16, kFloat32).reshape({4, 4}), y = x.clone();
  x.add_(x.t());
  CHECK(equal(x, y + y.t()));
  const Tensor line = arange(6, kFloat32), kept = line.clone();
  line.slice(0, 1).mul_(line.slice(0, 0, 5));
  CHECK(equal(line.slice(0, 1), kept.slice(0, 1) * kept.slice(0, 0, 5)));
  const Tensor twice = of({1, 2, 3});
  twice.mul_(twice);
  CHECK(values(twice) == Doubles{1, 4, 9});
}

TEST_CASE("every layout gives the same values, and the result keeps the layout of its inputs") {
  const Tensor a = rand({5, 6, 7}), b = rand({5, 6, 7});
  const Tensor expected = a * b + a;
  const auto laid = [](const Tensor& t) {
    return t.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
  };
  CHECK(equal(laid(a) * laid(b) + laid(a), expected));
  CHECK((laid(a) * laid(b)).strides() == laid(a).strides());
  CHECK(equal(laid(a) * b + a, expected));
  const Tensor wide = rand({5, 12, 7});
  const Tensor gaps = wide.slice(1, 0, 12, 2);
  CHECK(equal(gaps + b, gaps.contiguous() + b));
  CHECK((gaps + b).is_contiguous());
  CHECK(equal(a.expand({3, 5, 6, 7}) + 0.5, (a + 0.5).expand({3, 5, 6, 7})));
  CHECK(equal(rand({3, 0}) + rand({1}), empty({3, 0})));
}

TEST_CASE("sizes around block and thread boundaries") {
  for (int64_t n : {1, 2, 1023, 1024, 1025, 4097, 40000, 70001}) {
    CAPTURE(n);
    const Tensor x = arange(n, kFloat64);
    const Tensor y = x.to(kFloat32) + x.to(kInt32);
    CHECK(equal(y, (x * 2).to(kFloat32)));
    CHECK(values(x.sub(1).add(of({1}, kFloat64)).eq(x).logical_not()) ==
          Doubles(static_cast<size_t>(n), 0));
  }
}

TEST_CASE("equal and allclose") {
  CHECK(equal(of({1, 2}), of({1, 2})));
  CHECK_FALSE(equal(of({1, 2}), of({1, 3})));
  CHECK_FALSE(equal(of({1, 2}), of({1})));
  CHECK_FALSE(equal(of({NAN}), of({NAN})));
  CHECK(allclose(of({1, INFINITY}), of({1 + 1e-6, INFINITY})));
  CHECK_FALSE(allclose(of({1, INFINITY}), of({1, -INFINITY})));
  CHECK_FALSE(allclose(of({NAN}), of({NAN})));
  CHECK(allclose(of({NAN}), of({NAN}), 1e-5, 1e-8, true));
  CHECK(allclose(of({4000000000}, kInt64), of({4000000000}, kInt64), 0, 0));
  CHECK_FALSE(allclose(of({4000000000}, kInt64), of({4000000001}, kInt64), 0, 0.5));
}

TEST_CASE("alpha scales the second argument, exactly for integers") {
  CHECK(values(add(of({1, 2}), of({3, 4}), 0.5)) == Doubles{2.5, 4});
  CHECK(values(sub(of({1, 2}), of({3, 4}), 2)) == Doubles{-5, -6});
  CHECK(values(rsub(of({1, 2}), 10, 2)) == Doubles{8, 6});
  constexpr int64_t odd = (int64_t{1} << 60) + 1;
  CHECK(add(of({0}, kInt64), of({1}, kInt64), odd).item<int64_t>() == odd);
  CHECK(values(add(of({1, 0}, kBool), of({0, 0}, kBool), true)) == Doubles{1, 0});
  CHECK_THROWS_AS(add(of({1}, kInt64), of({1}, kInt64), 1.5), TypeError);
  CHECK_THROWS_AS(add(of({1}), of({1}), true), TypeError);
}

TEST_CASE("16-bit floats are computed in float32 and rounded once") {
  const Tensor a = of({1}, kFloat16), b = of({0.0004882812}, kFloat16);
  CHECK(values(addcmul(a, b, ones({1}, kFloat16)).sub(a)) == Doubles{0});
  CHECK(values(of({60000}, kFloat16) * 2) == Doubles{INFINITY});
  CHECK(values(nan_to_num(of({INFINITY, -INFINITY, NAN}, kFloat16))) == Doubles{65504, -65504, 0});
  CHECK(values(exp(of({1}, kBFloat16))) == Doubles{2.71875});
}
TEST_SUITE_END();
