// What the value tests leave out: randomness, running statistics, in-place layers, initialisers,
// utilities and errors of layers.
#include <doctest/doctest.h>

#include <cmath>

#include "pellucid/torch.h"

using namespace pellucid;
namespace F = pellucid::nn::functional;

TEST_CASE("nn: dropout zeroes in training alone, and rescales") {
  manual_seed(1);
  nn::Dropout d(0.25);
  const Tensor x = ones({100, 100});
  const Tensor y = d(x);
  CHECK((y == 0).to(kFloat32).mean().item<double>() == doctest::Approx(0.25).epsilon(0.1));
  CHECK(y.max().item<float>() == doctest::Approx(1 / 0.75));
  const Tensor channels = nn::Dropout2d(0.5)->forward(ones({8, 16, 3, 3})).flatten(2);
  CHECK(equal(channels.amax(2), channels.amin(2)));  // a channel goes as a whole
  d->eval();
  CHECK(equal(d(x), x));
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
  CHECK_THROWS_AS(F::dropout(x, F::DropoutFuncOptions().p(-1)), ValueError);
}

TEST_CASE("nn: batch norm keeps running statistics") {
  nn::BatchNorm1d bn(2);
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 6.0}});
  bn(x);
  CHECK(allclose(bn->running_mean, tensor({0.2, 0.4})));
  CHECK(allclose(bn->running_var, tensor({0.9 + 0.2, 0.9 + 0.8})));
  CHECK(bn->num_batches_tracked.item<int64_t>() == 1);
  bn->eval();
  bn(x);
  CHECK(bn->num_batches_tracked.item<int64_t>() == 1);
  nn::BatchNorm1d average(nn::BatchNorm1dOptions(2).momentum(std::nullopt));
  average(x);
  average(x * 3);
  CHECK(allclose(average->running_mean, tensor({4.0, 8.0})));
  CHECK_THROWS_AS(bn(ones({2})), ShapeError);
  CHECK_THROWS_AS(nn::BatchNorm2d(3)->forward(ones({2, 3})), ShapeError);
}

TEST_CASE("nn: in-place activations write into their input") {
  const Tensor x = tensor({-1.0, 2.0});
  CHECK(nn::ReLU(true)->forward(x).is_same(x));
  CHECK(equal(x, tensor({0.0, 2.0})));
  F::leaky_relu(x, F::LeakyReLUFuncOptions().inplace(true));
  CHECK(equal(F::relu(tensor({-1.0, 1.0})), tensor({0.0, 1.0})));
  CHECK(equal(F::softmax(zeros({2, 2}), 1), full({2, 2}, 0.5)));
}

TEST_CASE("nn: embedding from vectors, padding and range") {
  const Tensor table = randn({4, 3});
  nn::Embedding frozen = nn::Embedding::from_pretrained(table);
  CHECK_FALSE(frozen->weight.requires_grad());
  CHECK(equal(frozen(tensor({2, 0})), table.index_select(0, tensor({2, 0}))));
  nn::Embedding padded(nn::EmbeddingOptions(4, 3).padding_idx(-1));
  CHECK(equal(padded->weight[3], zeros({3})));
  CHECK_THROWS_AS(nn::Embedding(nn::EmbeddingOptions(4, 3).padding_idx(4)), IndexError);
  CHECK_THROWS_AS(padded(tensor({7})), IndexError);
}

TEST_CASE("nn: initial values have PyTorch's ranges") {
  manual_seed(3);
  nn::Linear layer(400, 300);
  const double bound = 1 / std::sqrt(400.0);
  CHECK(layer->weight.abs().max().item<double>() <= bound);
  CHECK(layer->weight.std().item<double>() == doctest::Approx(bound / std::sqrt(3)).epsilon(0.02));
  CHECK(layer->bias.abs().max().item<double>() <= bound);
  nn::LSTM lstm(3, 100);
  CHECK(lstm->all_weights()[0].abs().max().item<double>() <= 0.1);
  const auto [in, out] = nn::init::_calculate_fan_in_and_fan_out(zeros({8, 4, 3, 3}));
  CHECK(in == 36);
  CHECK(out == 72);
  CHECK(nn::init::calculate_gain(kReLU) == doctest::Approx(std::sqrt(2.0)));
  CHECK(nn::init::calculate_gain(kLeakyReLU, 0.2) == doctest::Approx(std::sqrt(2 / 1.04)));
  CHECK(nn::init::calculate_gain(kTanh) == doctest::Approx(5.0 / 3));
  const Tensor w = empty({200, 300});
  CHECK(nn::init::kaiming_normal_(w, 0, kFanOut, kReLU).std().item<double>() ==
        doctest::Approx(std::sqrt(2.0 / 200)).epsilon(0.02));
  CHECK(nn::init::xavier_uniform_(w).abs().max().item<double>() <= std::sqrt(6.0 / 500));
  CHECK(nn::init::xavier_normal_(w).std().item<double>() ==
        doctest::Approx(std::sqrt(2.0 / 500)).epsilon(0.02));
  CHECK(nn::init::trunc_normal_(w, 0, 1, -0.5, 0.5).abs().max().item<double>() <= 0.5);
  const Tensor q = nn::init::orthogonal_(empty({5, 8}));
  CHECK(allclose(q.matmul(q.t()), eye(5), 1e-5, 1e-5));
  CHECK(equal(nn::init::eye_(empty({2, 3})), eye(2, 3)));
  const Tensor d = nn::init::dirac_(empty({2, 2, 3}));
  CHECK(d.sum().item<double>() == 2);
  CHECK(d[1][1][1].item<double>() == 1);
  const Tensor sparse = nn::init::sparse_(empty({10, 4}), 0.3);
  CHECK(equal((sparse == 0).sum(0), full({4}, 3)));
  CHECK_THROWS_AS(nn::init::kaiming_uniform_(empty({3})), ShapeError);
}

TEST_CASE("nn: clipping returns the norm before") {
  const Tensor a = zeros({2}).requires_grad_(), b = zeros({1}).requires_grad_();
  const auto set = [&] {
    a.set_grad(tensor({3.0f, 0.0f}));
    b.set_grad(tensor({4.0f}));
  };
  set();
  CHECK(nn::utils::clip_grad_norm_({a, b}, 1.0) == doctest::Approx(5.0));
  CHECK(nn::utils::grad_norm({a, b}) == doctest::Approx(1.0));
  CHECK(a.grad()[0].item<double>() == doctest::Approx(0.6));
  set();
  CHECK(nn::utils::clip_grad_norm_({a, b}, 10.0) == doctest::Approx(5.0));
  CHECK(b.grad()[0].item<float>() == 4.0f);
  CHECK(nn::utils::clip_grad_norm_({a, b}, 1.0, std::numeric_limits<double>::infinity()) ==
        doctest::Approx(4.0));
  set();
  nn::utils::clip_grad_value_({a, b}, 2.5);
  CHECK(equal(a.grad(), tensor({2.5f, 0.0f})));
  b.set_grad(tensor({std::nanf("")}));
  CHECK_THROWS_AS(nn::utils::clip_grad_norm_({a, b}, 1.0, 2.0, true), ValueError);
  CHECK(nn::utils::clip_grad_norm_({zeros({1})}, 1.0) == 0.0);
}

TEST_CASE("nn: parameters as one vector and back") {
  nn::Linear a(2, 3), b(2, 3);
  const Tensor vec = nn::utils::parameters_to_vector(a->parameters());
  CHECK(vec.sizes() == IntArrayRef({9}));
  nn::utils::vector_to_parameters(vec, b->parameters());
  CHECK(equal(a->weight, b->weight));
  CHECK(equal(a->bias, b->bias));
  CHECK_THROWS_AS(nn::utils::vector_to_parameters(ones({3}), b->parameters()), ShapeError);
}

TEST_CASE("nn: layers refuse what cannot be") {
  CHECK_THROWS_AS(nn::Linear(-1, 2), ValueError);
  CHECK_THROWS_AS(nn::Linear(4, 3)->forward(ones({2, 5})), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).groups(2)), ValueError);
  CHECK_THROWS_AS(nn::Conv2d(nn::Conv2dOptions(2, 4, 3).stride(2).padding(kSame)), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2, 2, 3).stride(2))
                      ->forward(ones({1, 2, 3, 3}), IntArrayRef({20, 20})),
                  ShapeError);
  CHECK_THROWS_AS(nn::GroupNorm(3, 4), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(7, 2), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4)->forward(ones({5, 2, 2})), ShapeError);
  CHECK_THROWS_AS(nn::GRU(3, 4)->forward(ones({5, 2, 3}), ones({2, 2, 4})), ShapeError);
  CHECK_THROWS_AS(nn::GLU()->forward(ones({3})), ShapeError);
  CHECK_THROWS_AS(nn::CrossEntropyLoss()->forward(ones({2, 3}), tensor({0, 5})), Error);
}

TEST_CASE("nn: recurrent dropout acts between layers, in training alone") {
  manual_seed(5);
  nn::LSTM lstm(nn::LSTMOptions(3, 8).num_layers(2).dropout(0.5));
  const Tensor x = randn({4, 2, 3});
  const Tensor first = std::get<0>(lstm(x)), second = std::get<0>(lstm(x));
  CHECK_FALSE(allclose(first, second));
  lstm->eval();
  CHECK(equal(std::get<0>(lstm(x)), std::get<0>(lstm(x))));
}

TEST_CASE("nn: multihead attention gives the same with and without weights, causal too") {
  manual_seed(6);
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(8, 2).batch_first(true));
  const Tensor x = randn({2, 5, 8});
  const auto run = [&](bool weights, bool causal, const Tensor& mask) {
    return std::get<0>(attention(x, x, x, Tensor(), weights, mask, true, causal));
  };
  const Tensor future = ones({5, 5}, kBool).triu(1);
  CHECK(allclose(run(true, false, {}), run(false, false, {}), 1e-5, 1e-6));
  CHECK(allclose(run(true, true, {}), run(false, true, {}), 1e-5, 1e-6));
  CHECK(allclose(run(false, true, {}), run(false, false, future), 1e-5, 1e-6));
  const Tensor weights = std::get<1>(attention(x, x, x));
  CHECK(weights.sizes() == IntArrayRef({2, 5, 5}));
  CHECK(allclose(weights.sum(-1), ones({2, 5}), 1e-5, 1e-6));
  const Tensor one = std::get<0>(attention(x[0], x[0], x[0]));  // without a batch
  CHECK(allclose(one, run(true, false, {})[0], 1e-5, 1e-6));
  CHECK_THROWS_AS(run(false, false, ones({4, 5}, kBool)), ShapeError);
}
