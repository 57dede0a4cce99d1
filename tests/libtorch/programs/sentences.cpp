// Sentences of several lengths: a data set that gives lists of words, packed batches through a GRU,
// LBFGS over the whole set at the end, and what such programs print and save on the way.
#include <sstream>

#include "../libtorch.h"
#include "programs.h"

namespace programs::sentences_program {

using torch::nn::utils::rnn::pack_sequence;
using torch::nn::utils::rnn::pad_packed_sequence;

/// Words 0 to 9; a sentence is true when its last word is below 5.
class Sentences : public torch::data::Dataset<Sentences> {
 public:
  torch::data::Example<> get(size_t index) override {
    auto words = torch::arange(static_cast<int64_t>(index % 7) + 1, torch::kLong);
    words = (words * 3 + static_cast<int64_t>(index)).remainder(10);
    return {words, (words[-1] < 5).to(torch::kFloat)};
  }
  torch::optional<size_t> size() const override { return 60; }
};

struct Reader : torch::nn::Module {
  Reader()
      : embedding(register_module("embedding", torch::nn::Embedding(10, 6))),
        gru(register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(6, 8)))),
        out(register_module("out", torch::nn::Linear(8, 1))) {}
  torch::Tensor forward(const std::vector<torch::Tensor>& sentences) {
    std::vector<torch::Tensor> embedded;
    for (const auto& words : sentences) embedded.push_back(embedding(words));
    auto packed = pack_sequence(embedded, /*enforce_sorted=*/false);
    auto last = std::get<1>(gru->forward_with_packed_input(packed));
    return out(last[-1]).squeeze(-1);
  }
  torch::nn::Embedding embedding;
  torch::nn::GRU gru;
  torch::nn::Linear out;
};

/// How much of what a program sees of a packed batch is not as it should be.
int wrong_packing(torch::nn::GRU gru) {
  std::vector<torch::Tensor> parts{torch::randn({2, 6}), torch::randn({5, 6})};
  auto packed = pack_sequence(parts, false);
  auto result = gru->forward_with_packed_input(packed);
  auto padded = pad_packed_sequence(std::get<0>(result), /*batch_first=*/true);
  std::ostringstream text;
  text << std::get<0>(padded).sizes() << ' ' << packed.batch_sizes().scalar_type() << ' '
       << torch::nn::utils::rnn::pad_sequence(parts, /*batch_first=*/true).sizes();
  int wrong = text.str() != "[2, 5, 8] Long [2, 5, 6]";
  auto alone = std::get<0>(gru->forward(parts[0].unsqueeze(1))).squeeze(1);
  wrong += !torch::allclose(std::get<0>(padded)[0].slice(0, 0, 2), alone, 1e-4, 1e-5);
  return wrong + (std::get<1>(padded)[1].item<int64_t>() != 5);
}

}  // namespace programs::sentences_program

namespace programs {

Run sentences(const std::string& out) {
  using namespace sentences_program;
  torch::manual_seed(4);
  Run run;
  auto model = std::make_shared<Reader>();
  run.result += wrong_packing(model->gru);

  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(0.02));
  auto loader = torch::data::make_data_loader(
      Sentences(), torch::data::DataLoaderOptions().batch_size(12).workers(1));
  std::vector<torch::Tensor> all, truths;
  for (int epoch = 0; epoch < 6; ++epoch)
    for (auto& batch : *loader) {
      std::vector<torch::Tensor> words, truth;
      for (auto& example : batch) {
        words.push_back(example.data);
        truth.push_back(example.target);
      }
      if (epoch == 0) all.insert(all.end(), words.begin(), words.end());
      if (epoch == 0) truths.insert(truths.end(), truth.begin(), truth.end());
      adam.zero_grad();
      auto loss =
          torch::binary_cross_entropy_with_logits(model->forward(words), torch::stack(truth));
      loss.backward();
      adam.step();
      run.losses.push_back(loss.item<double>());
    }

  torch::optim::LBFGS lbfgs(
      model->parameters(),
      torch::optim::LBFGSOptions(1).max_iter(5).line_search_fn("strong_wolfe"));
  for (int step = 0; step < 3; ++step)
    run.losses.push_back(lbfgs
                             .step([&] {
                               lbfgs.zero_grad();
                               auto loss = torch::binary_cross_entropy_with_logits(
                                   model->forward(all), torch::stack(truths));
                               loss.backward();
                               return loss;
                             })
                             .item<double>());

  torch::save({model->out->weight, model->out->bias}, out + "/head.pt");
  std::vector<torch::Tensor> head;
  torch::load(head, out + "/head.pt");
  run.result += head.size() != 2 || !torch::equal(head[0], model->out->weight);
  return run;
}

}  // namespace programs
