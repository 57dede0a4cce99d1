// A recurrent network that foresees the next value of a wave, with padded batches, an embedding of
// the kind of wave, and RMSprop under a closure.
#include <cmath>

#include "../libtorch.h"
#include "programs.h"

namespace programs::sequence_program {

struct ForecastOptions {
  ForecastOptions(int64_t hidden) : hidden_(hidden) {}
  TORCH_ARG(int64_t, hidden);
  TORCH_ARG(int64_t, kinds) = 3;
  TORCH_ARG(double, dropout) = 0.0;
};

class ForecastImpl : public torch::nn::Cloneable<ForecastImpl> {
 public:
  explicit ForecastImpl(int64_t hidden) : ForecastImpl(ForecastOptions(hidden)) {}
  explicit ForecastImpl(const ForecastOptions& options_) : options(options_) { reset(); }

  void reset() override {
    kind = register_module("kind", torch::nn::Embedding(options.kinds(), 4));
    lstm = register_module(
        "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(1 + 4, options.hidden()).batch_first(true)));
    norm = register_module(
        "norm",
        torch::nn::LayerNorm(torch::nn::LayerNormOptions(std::vector<int64_t>{options.hidden()})));
    out = register_module("out", torch::nn::Linear(options.hidden(), 1));
    scale = register_parameter("scale", torch::ones({1}));
    register_buffer("seen", torch::zeros({}, torch::kLong));
  }

  torch::Tensor forward(torch::Tensor x, torch::Tensor kinds) {
    auto embedded = kind(kinds).unsqueeze(1).expand({-1, x.size(1), -1});
    auto input = torch::cat({x.unsqueeze(-1), embedded}, -1);
    torch::Tensor output;
    std::tuple<torch::Tensor, torch::Tensor> state;
    std::tie(output, state) = lstm->forward(input);
    output = torch::nn::functional::dropout(
        norm(output),
        torch::nn::functional::DropoutFuncOptions().p(options.dropout()).training(is_training()));
    return out(output).squeeze(-1) * scale;
  }

  ForecastOptions options;
  torch::nn::Embedding kind{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear out{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(Forecast);

}  // namespace programs::sequence_program

programs::Run programs::sequence() {
  using namespace sequence_program;
  torch::manual_seed(3);
  torch::set_num_threads(torch::get_num_threads());
  const int64_t count = 12, length = 20;
  auto kinds = torch::arange(count) % 3;
  auto time = torch::linspace(0, 6, length + 1).unsqueeze(0);
  auto waves = torch::sin(time * (kinds + 1).unsqueeze(1).to(torch::kFloat));
  auto x = waves.narrow(1, 0, length), y = waves.slice(/*dim=*/1, 1);

  Forecast model(ForecastOptions(16).dropout(0.0));
  torch::optim::RMSprop optimizer(model->parameters(),
                                  torch::optim::RMSpropOptions(5e-3).momentum(0.5));
  Run run;
  for (int step = 0; step < 60; ++step) {
    auto closure = [&]() -> torch::Tensor {
      optimizer.zero_grad();
      auto loss = torch::mse_loss(model->forward(x, kinds), y);
      loss.backward();
      return loss;
    };
    run.losses.push_back(optimizer.step(closure).item<double>());
  }
  auto copy = std::dynamic_pointer_cast<ForecastImpl>(model->clone());
  {
    torch::NoGradGuard no_grad;
    copy->scale.mul_(2);
    TORCH_CHECK(torch::allclose(copy->forward(x, kinds), 2 * model->forward(x, kinds)),
                "a clone shares its values");
  }
  run.result = run.losses.back() / run.losses.front();
  return run;
}
