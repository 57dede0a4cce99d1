// Programs as libtorch's users write them: the tensor, indexing and autograd API by libtorch's
// names and meanings. That this file compiles is most of the test.
#include <doctest/doctest.h>

#include "pellucid/torch.h"

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor input, torch::Tensor weight,
                               torch::Tensor bias = torch::Tensor()) {
    ctx->save_for_backward({input, weight, bias});
    ctx->saved_data["has_bias"] = bias.defined();
    ctx->saved_data["sizes"] = input.sizes().vec();
    auto output = input.mm(weight.t());
    if (bias.defined()) output += bias.unsqueeze(0).expand_as(output);
    return output;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    auto saved = ctx->get_saved_variables();
    CHECK(ctx->saved_data["sizes"].toIntVector() == saved[0].sizes().vec());
    auto grad_output = grad_outputs[0];
    auto grad_bias = torch::Tensor();
    if (ctx->saved_data["has_bias"].toBool()) grad_bias = grad_output.sum(0);
    return {grad_output.mm(saved[1]), grad_output.t().mm(saved[0]), grad_bias};
  }
};

struct MulConstant : torch::autograd::Function<MulConstant> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor tensor, double constant) {
    ctx->saved_data["constant"] = constant;
    return tensor * constant;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grad_outputs) {
    return {grad_outputs[0] * ctx->saved_data["constant"].toDouble(), torch::Tensor()};
  }
};

struct Options {
  TORCH_ARG(int64_t, features) = 4;
  TORCH_ARG(double, rate) = 0.5;
};

}  // namespace

TEST_CASE("libtorch: creation and options") {
  const auto options = torch::TensorOptions()
                           .dtype(torch::kFloat64)
                           .layout(torch::kStrided)
                           .device(torch::kCPU)
                           .requires_grad(true);
  const torch::Tensor a = torch::full({3, 4}, 123, options);
  CHECK((a.dtype() == torch::kFloat64));
  CHECK(a.requires_grad());
  CHECK((torch::full({2}, 123).dtype() == torch::kLong));
  CHECK((torch::arange(3).dtype() == torch::kInt64));
  CHECK((torch::randn({2, 2}, torch::dtype(torch::kDouble)).dtype() == torch::kF64));
  CHECK((torch::randint(/*high=*/10, {5}).dtype() == torch::kInt64));
  CHECK((torch::zeros({2}).to(at::kLong).scalar_type() == at::kLong));
  float values[] = {1, 2, 3, 4};
  const auto blob = torch::from_blob(values, {2, 2});
  values[3] = 8;
  CHECK(blob[1][1].item<float>() == 8);
  CHECK(blob.options().dtype_opt() == torch::kFloat);
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  CHECK(blob.to(device).device().is_cpu());
  CHECK_FALSE(device == torch::kCUDA);
  CHECK(torch::Device(torch::kCUDA) == torch::kCUDA);
  CHECK(torch::Device("cuda:1").str() == "cuda:1");
  CHECK_THROWS_AS(torch::Device("cuda:"), torch::ValueError);
  CHECK_THROWS_AS(torch::Device("cuda:-1"), torch::ValueError);
  CHECK_THROWS_AS(torch::Device("cpu:1"), torch::ValueError);
  CHECK_THROWS_AS(torch::Device("gpu"), torch::ValueError);
  CHECK_THROWS_AS(torch::zeros({2}, torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(torch::randn({2}, torch::device(torch::kCUDA)), torch::ValueError);
  CHECK_THROWS_AS(torch::tensor({1.0}, torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(torch::from_blob(values, {2, 2}, torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(torch::zeros_like(blob, torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(blob.new_zeros({2}, torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(blob.to(torch::TensorOptions(torch::kCUDA)), torch::ValueError);
  CHECK_THROWS_AS(torch::nn::Linear(2, 3)->to(torch::kCUDA), torch::ValueError);
  CHECK_THROWS_AS(torch::nn::Linear(2, 3)->clone(torch::Device(torch::kCUDA)), torch::ValueError);
  CHECK_THROWS_AS(blob.to(torch::kCUDA), torch::ValueError);
  CHECK(blob.to(device).is_same(blob));
  CHECK_FALSE(blob.to(device, /*non_blocking=*/false, /*copy=*/true).is_alias_of(blob));
  CHECK((torch::TensorOptions().dtype() == torch::kFloat));
  CHECK((blob.to(torch::kLong).options().dtype() == torch::kLong));
  CHECK((blob.layout() == torch::kStrided && blob.is_signed() && !blob.is_complex()));
  const auto unit = torch::eye(2);
  CHECK(unit.accessor<float, 2>()[1][1] == 1);
  CHECK(unit.accessor<float, 2>().sizes() == unit.sizes());
  CHECK(torch::str("x", 1, ' ', 2.5) == "x1 2.5");
}

TEST_CASE("libtorch: sizes, dtypes, devices and scalars go to a stream") {
  const auto x = torch::zeros({2, 3}, torch::kLong);
  std::ostringstream out;
  out << x.sizes() << ' ' << x.strides() << ' ' << x.scalar_type() << ' ' << x.device() << ' '
      << torch::kCPU << ' ' << torch::Scalar(2.5) << ' ' << torch::zeros({}).sizes() << ' '
      << x.layout();
  CHECK(out.str() == "[2, 3] [3, 1] Long cpu cpu 2.5 [] Strided");
}

TEST_CASE("libtorch: indexing") {
  using namespace torch::indexing;
  const auto x = torch::arange(24).view({2, 3, 4});
  CHECK(x.index({0, 1, 2}).item<int64_t>() == 6);
  CHECK(x.index({None, 0}).sizes() == torch::IntArrayRef({1, 3, 4}));
  CHECK(x.index({"...", 0}).equal(x.select(2, 0)));
  CHECK(x.index({Ellipsis, Slice(1, None, 2)})
            .equal(torch::stack({x.select(2, 1), x.select(2, 3)}, 2)));
  CHECK(
      x.index({torch::tensor({1, 0}), Slice(), 3}).equal(torch::stack({x[1], x[0]}).select(2, 3)));
  CHECK(x.index({x > 20}).equal(torch::tensor({21, 22, 23})));
  x.index_put_({0, Slice(), 1}, -1);
  CHECK(x.select(0, 0).select(1, 1).equal(torch::full({3}, -1)));
  x.index_put_({Slice(), 0, 0}, torch::tensor({70, 71}));
  CHECK(x.index({1, 0, 0}).item().toInt() == 71);
  CHECK_THROWS_AS(x.index({2}), torch::IndexError);
}

TEST_CASE("libtorch: autograd") {
  const auto x = torch::ones({2, 2}, torch::requires_grad());
  const auto y = x + 2;
  CHECK(y.grad_fn()->name() == "AddBackward0");
  const auto out = (y * y * 3).mean();
  out.backward();
  CHECK(x.grad().equal(torch::full({2, 2}, 4.5)));
  {
    torch::NoGradGuard no_grad;
    CHECK(!(x * 2).requires_grad());
  }
  CHECK(!x.detach().requires_grad());
  CHECK(x.eq(x.detach()).all().item<bool>());

  // A gradient penalty.
  const auto weight = torch::randn({3, 4}).set_requires_grad(true);
  const auto input = torch::randn({5, 4}).requires_grad_(true);
  const auto output = torch::linear(input, weight);
  const auto penalty =
      torch::autograd::grad({output}, {input}, {torch::ones_like(output)}, /*retain_graph=*/true,
                            /*create_graph=*/true)[0]
          .norm(2, /*dim=*/1)
          .sub(1)
          .pow(2)
          .mean();
  (output.sum() + penalty).backward();
  CHECK(weight.grad().defined());
  CHECK(weight.mutable_grad().zero_().sum().item<float>() == 0);
}

TEST_CASE("libtorch: custom functions") {
  const auto x = torch::randn({2, 3}, torch::kDouble).requires_grad_();
  const auto weight = torch::randn({4, 3}, torch::kDouble).requires_grad_();
  const auto bias = torch::randn({4}, torch::kDouble).requires_grad_();
  Linear::apply(x, weight, bias).sum().backward();
  CHECK(x.grad().allclose(weight.detach().sum(0).expand({2, 3})));
  CHECK(bias.grad().allclose(torch::full({4}, 2.0, torch::kDouble)));
  Linear::apply(x, weight).sum().backward();
  CHECK(x.grad().allclose(2 * weight.detach().sum(0).expand({2, 3})));
  const auto m = torch::randn({2}).requires_grad_();
  MulConstant::apply(m, 5.5).sum().backward();
  CHECK(m.grad().equal(torch::full({2}, 5.5)));
}

TEST_CASE("libtorch: macros") {
  CHECK(Options().features(7).rate(0.25).features() == 7);
  CHECK_NOTHROW(TORCH_CHECK(true, "never"));
  try {
    TORCH_CHECK(1 > 2, "one is not ", 2);
    FAIL("no exception");
  } catch (const c10::Error& e) { CHECK(std::string(e.what()) == "one is not 2"); }
  CHECK_THROWS_AS(AT_ASSERT(false), torch::Error);
  CHECK_THROWS_AS(TORCH_CHECK_INDEX(false, "no"), torch::IndexError);
}
