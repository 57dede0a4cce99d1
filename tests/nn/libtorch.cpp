// Programs in libtorch's own idiom compile and run: a network with members, a generator and a
// discriminator of a GAN, options, devices, functional calls.
#include <doctest/doctest.h>

#include <iostream>

#include "pellucid/torch.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

struct Net : torch::nn::Module {
  Net()
      : conv1(torch::nn::Conv2dOptions(1, 10, /*kernel_size=*/5)),
        conv2(torch::nn::Conv2dOptions(10, 20, /*kernel_size=*/5)),
        fc1(320, 50),
        fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
    x = x.view({-1, 320});
    x = torch::relu(fc1->forward(x));
    x = torch::dropout(x, /*p=*/0.5, /*train=*/is_training());
    x = fc2->forward(x);
    return torch::log_softmax(x, /*dim=*/1);
  }
  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};

struct GeneratorImpl : nn::Module {
  explicit GeneratorImpl(int noise)
      : conv1(nn::ConvTranspose2dOptions(noise, 32, 4).bias(false)),
        batch_norm1(32),
        conv2(nn::ConvTranspose2dOptions(32, 16, 3).stride(2).padding(1).bias(false)),
        batch_norm2(16),
        conv3(nn::ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("batch_norm1", batch_norm1);
    register_module("batch_norm2", batch_norm2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(batch_norm1(conv1(x)));
    x = torch::relu(batch_norm2(conv2(x)));
    return torch::tanh(conv3(x));
  }
  nn::ConvTranspose2d conv1;
  nn::BatchNorm2d batch_norm1;
  nn::ConvTranspose2d conv2;
  nn::BatchNorm2d batch_norm2;
  nn::ConvTranspose2d conv3;
};
TORCH_MODULE(Generator);

struct Options {
  TORCH_ARG(double, rate) = 0.5;
  TORCH_ARG(std::string, mode) = "fast";
};

}  // namespace

TEST_CASE("libtorch idiom: the MNIST network") {
  torch::manual_seed(1);
  torch::Device device(torch::cuda::is_available() ? "cuda" : "cpu");
  Net model;
  model.to(device);
  model.train();
  const torch::Tensor data = torch::rand({4, 1, 28, 28}).to(device);
  const torch::Tensor targets = torch::tensor({1, 2, 3, 4});
  torch::Tensor loss = torch::nll_loss(model.forward(data), targets);
  AT_ASSERT(!std::isnan(loss.template item<float>()));
  loss.backward();
  for (const auto& p : model.named_parameters()) {
    CAPTURE(p.key());
    CHECK(p.value().grad().defined());
    CHECK(p->grad().sizes() == p.value().sizes());
  }
  torch::NoGradGuard no_grad;
  model.eval();
  CHECK(model.forward(data).argmax(1).eq(targets).sum().item<int64_t>() <= 4);
}

TEST_CASE("libtorch idiom: a generator and a discriminator") {
  torch::manual_seed(1);
  Generator generator(8);
  nn::Sequential discriminator(
      nn::Conv2d(nn::Conv2dOptions(1, 16, 4).stride(2).padding(1).bias(false)),
      nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
      nn::Conv2d(nn::Conv2dOptions(16, 32, 4).stride(2).padding(1).bias(false)),
      nn::BatchNorm2d(32), nn::Functional(torch::leaky_relu, 0.2),
      nn::Conv2d(nn::Conv2dOptions(32, 1, 3).stride(1).padding(0).bias(false)), nn::Sigmoid());
  generator->to(torch::kCPU);
  const torch::Tensor fake = generator->forward(torch::randn({2, 8, 1, 1}));
  CHECK(fake.sizes() == torch::IntArrayRef({2, 1, 14, 14}));
  const torch::Tensor score = discriminator->forward(fake.detach());
  const torch::Tensor loss =
      torch::binary_cross_entropy(score, torch::empty_like(score).uniform_(0.8, 1.0));
  loss.backward();
  CHECK(discriminator->parameters()[0].grad().defined());
  CHECK_FALSE(generator->parameters()[0].grad().defined());
}

TEST_CASE("libtorch idiom: options, functions, names") {
  Options o;
  o.rate(0.25).mode("slow");
  CHECK(o.rate() == 0.25);
  CHECK(o.mode() == "slow");
  const torch::Tensor x = torch::ones({1, 1, 4, 4});
  CHECK(F::max_pool2d(x, F::MaxPool2dFuncOptions(2)).sizes() == torch::IntArrayRef({1, 1, 2, 2}));
  CHECK(F::conv2d(x, torch::ones({1, 1, 2, 2}), F::Conv2dFuncOptions().stride(2)).numel() == 4);
  CHECK(F::pad(x, F::PadFuncOptions({1, 1}).mode(torch::kReplicate)).size(3) == 6);
  CHECK(F::cross_entropy(torch::zeros({1, 2}), torch::tensor({0})).item<float>() ==
        doctest::Approx(std::log(2.0)));
  CHECK(F::mse_loss(x, x, F::MSELossFuncOptions(torch::kSum)).item<float>() == 0);
  CHECK(F::normalize(torch::tensor({{3.0, 4.0}})).equal(torch::tensor({{0.6, 0.8}})));
  CHECK(F::gumbel_softmax(torch::zeros({3, 4}), F::GumbelSoftmaxFuncOptions().hard(true))
            .sum(1)
            .equal(torch::ones({3})));
  auto shared = std::make_shared<Net>();
  CHECK(shared->parameters().size() == 8);
  torch::nn::AnyModule any(torch::nn::Linear(2, 3));
  CHECK(any.forward<torch::Tensor>(torch::ones({1, 2})).size(1) == 3);
  nn::LSTM lstm(nn::LSTMOptions(3, 4).num_layers(2).batch_first(true));
  auto [output, state] = lstm->forward(torch::ones({2, 5, 3}));
  auto [h, c] = state;
  CHECK(output.sizes() == torch::IntArrayRef({2, 5, 4}));
  CHECK(h.sizes() == torch::IntArrayRef({2, 2, 4}));
  CHECK(torch::str("a", 1) == "a1");
}
