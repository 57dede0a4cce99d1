// The ready-made models: sizes, values against PyTorch where they are known, training, caches and
// generation.
#include "pellucid/models.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pellucid/pellucid.h"
#include "shared_data.h"
#include "temporary.h"

using namespace pellucid;

namespace {

int64_t count(const nn::Module& m) {
  int64_t n = 0;
  for (const Tensor& p : m.parameters()) n += p.numel();
  return n;
}

models::GPTOptions small_gpt() {
  return models::GPTOptions().vocab_size(17).block_size(12).n_layer(2).n_head(2).n_embd(16);
}

}  // namespace

TEST_CASE("models: parameters are as many as published") {
  CHECK(count(*models::mlp({1000, 100, 10})) == 101110);
  CHECK(count(*models::MnistCnn()) == 1199882);
  CHECK(count(*models::resnet18()) == 11689512);
  const models::GPTOptions o;  // GPT-2 124M, counted without making it
  CHECK(o.n_embd() * (o.vocab_size() + o.block_size()) +
            o.n_layer() * (12 * o.n_embd() * o.n_embd() + 13 * o.n_embd()) + 2 * o.n_embd() ==
        124439808);
  const auto s = small_gpt();
  CHECK(count(*models::GPT(s)) == 16 * (17 + 12) + 2 * (12 * 256 + 13 * 16) + 32);
}

TEST_CASE("models: the CNN and ResNet-18 give one row a picture, and learn") {
  manual_seed(2);
  models::MnistCnn cnn;
  CHECK(allclose(cnn(randn({2, 1, 28, 28})).exp().sum(1), ones({2}), 1e-5, 1e-5));
  const std::vector<std::string> names = models::resnet18(10)->named_parameters().keys();
  CHECK(names.front() == "conv1.weight");
  CHECK(std::find(names.begin(), names.end(), "layer2.0.downsample.0.weight") != names.end());
  CHECK(names.back() == "fc.bias");
  models::ResNet net = models::resnet18(3);
  const Tensor x = randn({2, 3, 32, 32}), y = tensor({0, 2});
  const double before = cross_entropy_loss(net(x), y).item<double>();
  for (int i = 0; i < 3; ++i) {
    net->zero_grad();
    cross_entropy_loss(net(x), y).backward();
    const NoGradGuard off;
    for (const Tensor& p : net->parameters()) p.sub_(p.grad() * 0.01);
  }
  CHECK(cross_entropy_loss(net(x), y).item<double>() < before);
}

TEST_CASE("models: the encoder classifier ignores padding") {
  manual_seed(2);
  models::EncoderClassifier net(
      models::EncoderClassifierOptions(20, 3).d_model(16).nhead(2).dim_feedforward(32).max_len(8));
  net->eval();
  const Tensor tokens = tensor({{1, 2, 3, 4}, {5, 6, 0, 0}});
  const Tensor padding = tensor({{false, false, false, false}, {false, false, true, true}});
  const Tensor y = net(tokens, padding);
  CHECK(y.sizes() == IntArrayRef({2, 3}));
  CHECK(allclose(y[1], net(tensor({{5, 6}}))[0], 1e-5, 1e-5));
  CHECK_THROWS_AS(net(ones({1, 9}, kInt64)), ValueError);
}

TEST_CASE("models: gpt with its cache equals gpt without") {
  manual_seed(2);
  models::GPT gpt(small_gpt());
  gpt->eval();
  const NoGradGuard off;
  const Tensor tokens = randint(17, {2, 10}, kInt64);
  const Tensor whole = gpt(tokens);
  CHECK(whole.sizes() == IntArrayRef({2, 10, 17}));
  Tensors steps{gpt(tokens.narrow(1, 0, 4), true)};
  for (int64_t t = 4; t < 10; ++t) steps.push_back(gpt(tokens.narrow(1, t, 1), true));
  CHECK(allclose(cat(steps, 1), whole, 1e-4, 1e-5));
  CHECK(gpt->cache_length() == 10);
  CHECK_THROWS_AS(gpt(tokens.narrow(1, 0, 3), true), ValueError);  // past the block size
  gpt->clear_cache();
  CHECK(allclose(gpt(tokens, true, true), whole.narrow(1, 9, 1), 1e-4, 1e-5));
  CHECK_THROWS_AS(gpt(ones({1, 13}, kInt64)), ValueError);
  auto copy = std::dynamic_pointer_cast<models::GPTImpl>(gpt->clone());
  CHECK(equal(copy->forward(tokens), whole));
}

TEST_CASE("models: a gpt block is one op for one token, unless somebody watches its modules") {
  manual_seed(2);
  models::GPT gpt(
      models::GPTOptions().vocab_size(17).block_size(12).n_layer(2).n_head(4).n_embd(128));
  gpt->eval();
  const Tensor tokens = randint(17, {1, 8}, kInt64);
  const auto decode = [&] {
    const NoGradGuard off;
    gpt->clear_cache();
    Tensors steps{gpt(tokens.narrow(1, 0, 3), true)};
    for (int64_t t = 3; t < 8; ++t) steps.push_back(gpt(tokens.narrow(1, t, 1), true));
    return cat(steps, 1);
  };
  const Tensor at_once = decode();
  int calls = 0;
  auto& block = gpt->h->at<models::GPTBlockImpl>(0);
  auto handle = block.mlp->register_forward_hook(
      [&](nn::Module&, const Tensors&, const Tensors&) { ++calls; });
  CHECK(equal(decode(), at_once));
  CHECK(calls == 6);
  handle.remove();
  CHECK(equal(decode(), at_once));
  CHECK(calls == 6);
  gpt->clear_cache();
  const Tensor recorded = gpt(tokens, true);  // with gradients, all at once
  CHECK(recorded.requires_grad());
  CHECK(allclose(recorded, at_once, 1e-4, 1e-5));
  gpt->to(kFloat16);
  CHECK(decode().dtype() == kFloat16);  // 16-bit floats take the ops one by one
}

TEST_CASE("models: gpt learns a short text by heart") {
  manual_seed(2);
  models::GPT gpt(small_gpt());
  const Tensor ids = tensor({{1, 5, 3, 9, 2, 7, 4, 11, 6, 13}});
  const Tensor x = ids.narrow(1, 0, 9), y = ids.narrow(1, 1, 9).flatten();
  double loss = 0;
  for (int i = 0; i < 60; ++i) {
    gpt->zero_grad();
    const Tensor l = cross_entropy_loss(gpt(x).flatten(0, 1), y);
    l.backward();
    loss = l.item<double>();
    const NoGradGuard off;
    nn::utils::clip_grad_norm_(gpt->parameters(), 1.0);
    for (const Tensor& p : gpt->parameters()) p.sub_(p.grad() * 0.5);
  }
  CHECK(loss < 0.1);
  gpt->eval();
  const auto written =
      models::generate(*gpt, {1}, models::GenerateOptions().tokens(9).temperature(0));
  CHECK(written == std::vector<int64_t>{1, 5, 3, 9, 2, 7, 4, 11, 6, 13});
}

TEST_CASE("models: a trained llama writes its 200 tokens, with and without the cache") {
  const auto weights = test::shared_data("stories260K/stories260K.bin"),
             ids_file = test::shared_data("stories260K/stories260K_greedy_ids.json");
  if (!weights || !ids_file) return;
  models::Llama llama = models::load_llama2c(*weights);
  CHECK(llama->options.n_kv_heads() == 4);
  std::ifstream file(*ids_file);
  const auto expected = nlohmann::json::parse(file)["greedy_ids_200"].get<std::vector<int64_t>>();
  for (const bool cache : {true, false}) {
    auto ids = models::generate(
        *llama, {1}, models::GenerateOptions().tokens(200).temperature(0).use_cache(cache));
    ids.erase(ids.begin());
    CHECK(ids == expected);
  }
}

TEST_CASE("models: files that are not models are refused") {
  CHECK_THROWS_AS(models::load_llama2c("/nonexistent/model.bin"), IoError);
  const auto weights = test::shared_data("stories260K/stories260K.bin");
  if (!weights) return;
  const std::string bytes = test::read_bytes(*weights);
  const test::TemporaryFolder folder;
  const std::string path = folder / "llama.bin";
  const auto refuses = [&](const std::string& content) {
    test::write_bytes(path, content);
    CHECK_THROWS_AS(models::load_llama2c(path), IoError);
  };
  refuses("");
  refuses(bytes.substr(0, 20));
  refuses(bytes.substr(0, bytes.size() - 4));
  refuses(bytes + "1234");
  std::string other = bytes;
  other[0] = 63;  // dim 63 does not divide by the heads
  refuses(other);
}

TEST_CASE("models: generation draws within top k and top p, by the seed") {
  manual_seed(2);
  models::GPT gpt(small_gpt());
  gpt->eval();
  const auto draw = [&](const models::GenerateOptions& o) {
    manual_seed(9);
    return models::generate(*gpt, {1, 2}, o);
  };
  const auto o = models::GenerateOptions().tokens(30);  // longer than the block size
  CHECK(draw(o) == draw(o));
  CHECK(draw(o).size() == 32);
  const auto greedy = draw(models::GenerateOptions().tokens(8).temperature(0));
  CHECK(draw(models::GenerateOptions().tokens(8).top_k(1)) == greedy);
  CHECK(draw(models::GenerateOptions().tokens(8).top_p(1e-6)) == greedy);
  int seen = 0;
  auto stopped = models::GenerateOptions().tokens(8);
  stopped.on_token([&](int64_t) { return ++seen < 3; });
  CHECK(draw(stopped).size() == 5);
  CHECK_THROWS_AS(models::generate(*gpt, {}, o), ValueError);
  CHECK_THROWS_AS(draw(models::GenerateOptions().temperature(-1)), ValueError);
}
