// The facts of tensors: sizes, strides, data, items, conversions, layouts that ops chose.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("tensor: sizes and strides by dim, negative dims too") {
  const Tensor t = zeros({2, 3, 4});
  CHECK(t.size(-1) == 4);
  CHECK(t.stride(0) == 12);
  CHECK(t.stride(-2) == 4);
  CHECK(t.numel() == 24);
  CHECK_THROWS_AS(t.size(3), IndexError);
  CHECK_THROWS_AS(zeros({}).size(0), IndexError);
}

TEST_CASE("tensor: an undefined tensor says so") {
  const Tensor none;
  CHECK(!none.defined());
  CHECK_THROWS_AS(none.sizes(), ValueError);
  CHECK(describe(none) == "undefined");
  CHECK(describe(zeros({2, 3})) == "float32[2, 3]");
}

TEST_CASE("tensor: item gives the value in its category") {
  CHECK(tensor(3).item().isIntegral());
  CHECK(tensor(2.5).item<double>() == 2.5);
  CHECK(tensor(true).item().isBoolean());
  CHECK(tensor({{7}}).item<int>() == 7);
  CHECK(tensor(1.5, kBFloat16).item<float>() == 1.5f);
  CHECK_THROWS_AS(zeros({2}).item(), ValueError);
  CHECK_THROWS_AS(zeros({0}).item(), ValueError);
}

TEST_CASE("tensor: data_ptr checks the type and marks the storage") {
  const Tensor t = ones({3});
  CHECK(!t.impl().storage->pointer_given_out());
  CHECK(t.const_data_ptr<float>()[2] == 1);
  CHECK(!t.impl().storage->pointer_given_out());
  t.data_ptr<float>()[1] = 5;
  CHECK(t.impl().storage->pointer_given_out());
  CHECK(t[1].item<float>() == 5);
  CHECK_THROWS_AS(t.data_ptr<double>(), TypeError);
  CHECK(t.accessor<float, 1>()[1] == 5);
  CHECK_THROWS_AS((t.accessor<float, 2>()), ShapeError);
}

TEST_CASE("tensor: contiguity of both memory formats") {
  const Tensor t = zeros({2, 3, 4, 5});
  CHECK(t.is_contiguous());
  CHECK(!t.is_contiguous(MemoryFormat::ChannelsLast));
  const Tensor last = t.contiguous(MemoryFormat::ChannelsLast);
  CHECK(!last.is_contiguous());
  CHECK(last.is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(last.strides() == IntArrayRef({60, 1, 15, 3}));
  CHECK_THROWS_AS(t.is_contiguous(MemoryFormat::Preserve), ValueError);
}

TEST_CASE("tensor: a layout that an op chose becomes row-major when looked at") {
  const Tensor plain = arange(24).view({1, 2, 3, 4}).to(kFloat32);
  const auto hidden = [&] {
    Tensor t = plain.contiguous(MemoryFormat::ChannelsLast);
    t.impl().hidden_layout = true;
    return t;
  };
  Tensor t = hidden();
  CHECK(t.raw_strides() == IntArrayRef({24, 1, 8, 2}));
  const uint32_t version = t._version();
  CHECK(t.strides() == IntArrayRef({24, 12, 4, 1}));
  CHECK(t._version() == version);
  CHECK(equal(t, plain));
  CHECK(hidden().is_contiguous());
  CHECK(!hidden().is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(hidden().data_ptr<float>()[5] == 5);
  CHECK(equal(hidden().view({4, 6}), plain.view({4, 6})));
  CHECK(hidden().toString() == plain.toString());
}

TEST_CASE("tensor: the default dtype is a floating one") {
  CHECK(get_default_dtype() == kFloat32);
  CHECK_THROWS_AS(set_default_dtype(kInt64), TypeError);
  set_default_dtype(kFloat64);
  const DType made = zeros({1}).dtype(), from_literal = tensor(1.5).dtype(),
              sum = (tensor({1, 2}) + 0.5).dtype();
  set_default_dtype(kFloat32);
  CHECK(made == kFloat64);
  CHECK(from_literal == kFloat64);
  CHECK(sum == kFloat64);
}

TEST_CASE("tensor: to returns the same tensor unless something changes") {
  const Tensor t = ones({2, 2});
  CHECK(t.to(kFloat32).is_same(t));
  CHECK(!t.to(kFloat32, false, true).is_same(t));
  CHECK(t.to(kInt64).dtype() == kInt64);
  CHECK(t.to(TensorOptions().dtype(kFloat64)).dtype() == kFloat64);
  CHECK(t.to(kCPU).is_same(t));
  CHECK(t.to(zeros({1}, kInt16)).dtype() == kInt16);
  const Tensor image = ones({1, 2, 2, 2});
  CHECK(image.to(TensorOptions().memory_format(MemoryFormat::ChannelsLast))
            .is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(t.new_zeros({3}, kInt64).dtype() == kInt64);
  CHECK(t.to(kFloat64).new_full({2}, 1.5).dtype() == kFloat64);
}

TEST_CASE("tensor: a conversion carries the gradient") {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  x.to(kFloat64).mul(3).sum().backward();
  CHECK(x.grad().dtype() == kFloat32);
  CHECK(equal(x.grad(), tensor({3.0, 3.0})));
}

TEST_CASE("operators: tensors and numbers on both sides") {
  const Tensor a = tensor({1.0, 2.0, 4.0}), b = tensor({2.0, 2.0, 2.0});
  CHECK(equal(a + b, tensor({3.0, 4.0, 6.0})));
  CHECK(equal(1 - a, tensor({0.0, -1.0, -3.0})));
  CHECK(equal(a - 1, tensor({0.0, 1.0, 3.0})));
  CHECK(equal(2 / a, tensor({2.0, 1.0, 0.5})));
  CHECK(equal(-a * b, tensor({-2.0, -4.0, -8.0})));
  CHECK(equal(a % 3, tensor({1.0, 2.0, 1.0})));
  CHECK(equal(a == b, tensor({false, true, false})));
  CHECK(equal(a != 2, tensor({true, false, true})));
  CHECK(equal(a < b, tensor({true, false, false})));
  CHECK(equal(2 <= a, tensor({false, true, true})));
  CHECK(equal((a > 1) & (a < 3), tensor({false, true, false})));
  CHECK(equal((a > 3) | (a < 2), tensor({true, false, true})));
  CHECK(equal(~(a > 1), tensor({true, false, false})));
  CHECK(equal(!(a > 1), tensor({true, false, false})));
  CHECK((tensor({1, 2}) * 2).dtype() == kInt64);
  CHECK((tensor({1, 2}) * 2.5).dtype() == kFloat32);
  CHECK((tensor({1.0, 2.0}, kFloat64) * tensor(2.5)).dtype() == kFloat64);
}

TEST_CASE("operators: compound assignment changes the tensor and its version") {
  Tensor a = tensor({1.0, 2.0});
  const Tensor same = a;  // NOLINT(performance-unnecessary-copy-initialization): the same tensor
  const uint32_t before = a._version();
  a += 1;
  a *= tensor({2.0, 3.0});
  a -= tensor({1.0, 1.0});
  a /= 2;
  CHECK(same.is_same(a));
  CHECK(equal(same, tensor({1.5, 4.0})));
  CHECK(a._version() == before + 4);
}

TEST_CASE("tensor: an empty tensor may have dims whose product passes 2^63") {
  const int64_t huge = int64_t{1} << 62;
  const Tensor x = empty({0, huge, 3}).transpose(0, 2);
  CHECK(x.sizes() == IntArrayRef({3, huge, 0}));
  CHECK(x.numel() == 0);
  CHECK(x.contiguous().sizes() == x.sizes());
  CHECK(empty({huge, 0, 7, 5}, MemoryFormat::ChannelsLast).numel() == 0);
}

TEST_CASE("operators: a column of a wider tensor broadcasts over as many columns") {
  const Tensor x = arange(4).view({2, 2});
  CHECK((x.slice(1, 0, 1) + zeros({2, 2}, kInt64)).equal(tensor({{0, 0}, {2, 2}})));
  const Tensor y = arange(12).view({3, 4}).slice(1, 1, 2);
  CHECK(mul(ones({3, 4}, kInt64), y).equal(tensor({{1, 1, 1, 1}, {5, 5, 5, 5}, {9, 9, 9, 9}})));
}

TEST_CASE("tensor: more than 64 dims are refused") {
  const Tensor x = ones(std::vector<int64_t>(64, 1));
  CHECK((x + x).dim() == 64);
  CHECK_THROWS_WITH_AS(x.unsqueeze(0), doctest::Contains("at most 64 dimensions"), ShapeError);
  CHECK_THROWS_AS(x.unsqueeze_(0), ShapeError);
  CHECK(x.dim() == 64);
}
