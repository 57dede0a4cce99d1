// Options, functions and names in libtorch's own idiom; whole programs are in tests/libtorch.
#include <doctest/doctest.h>

#include <cmath>

#include "pellucid/torch.h"

namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

struct Options {
  TORCH_ARG(double, rate) = 0.5;
  TORCH_ARG(std::string, mode) = "fast";
};

}  // namespace

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
  torch::nn::AnyModule any(torch::nn::Linear(2, 3));
  CHECK(any.forward<torch::Tensor>(torch::ones({1, 2})).size(1) == 3);
  nn::LSTM lstm(nn::LSTMOptions(3, 4).num_layers(2).batch_first(true));
  auto [output, state] = lstm->forward(torch::ones({2, 5, 3}));
  auto [h, c] = state;
  CHECK(output.sizes() == torch::IntArrayRef({2, 5, 4}));
  CHECK(h.sizes() == torch::IntArrayRef({2, 2, 4}));
  CHECK(torch::str("a", 1) == "a1");
}
