// Writes training runs for tests/parity/training.py, which repeats them in PyTorch: the weights a
// model starts from, its batches, the loss of every step and the gradients of the first; and what
// optimisers and schedules make of given gradients. One safetensors file a run, with the facts that
// Python needs as JSON in its metadata. Nothing happens unless PELLUCID_PARITY_DIR is set.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "pellucid/io/safetensors.h"
#include "pellucid/models.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using nlohmann::json;

namespace {

/// The options as Python's keyword arguments.
json keywords(optim::OptimizerOptions& options) {
  json out = {{"lr", options.get_lr()}};
  for (const optim::OptionField& f : options.fields())
    std::visit(
        [&](const auto* v) {
          if constexpr (std::is_same_v<decltype(v), const std::tuple<double, double>*>)
            out[std::string(f.name)] = {std::get<0>(*v), std::get<1>(*v)};
          else if constexpr (requires { v->has_value(); })
            out[std::string(f.name)] = v->has_value() ? json(**v) : json();
          else
            out[std::string(f.name)] = *v;
        },
        f.value);
  return out;
}

struct Files {
  std::string folder;
  void write(const std::string& name, const io::NamedTensors& tensors, const json& facts) const {
    io::save_safetensors(folder + "/" + name + ".safetensors", tensors, {{"run", facts.dump()}});
  }
};

/// A training run: what Python must know of it, and how a step's loss is made.
struct Training {
  std::string model;      ///< a class of training.py
  json arguments;         ///< of its constructor
  std::string loss;       ///< a function of training.py
  std::string optimizer;  ///< a class of torch.optim
  int64_t steps = 30;
  double tolerance = 1e-8;  ///< of the losses, relative
  bool gradients = false;   ///< whether the first gradients are compared too
};

using Batch = std::pair<Tensor, Tensor>;

void record(const Files& files, const Training& t, nn::Module& model, optim::Optimizer& optimizer,
            const std::vector<Batch>& batches, const std::function<Tensor(const Batch&)>& loss_of) {
  const DType type = model.parameters()[0].dtype();
  io::NamedTensors tensors;
  for (const auto& item : model.state_dict())
    tensors.emplace_back("weights." + item.key(), item.value().clone());
  for (size_t i = 0; i < batches.size(); ++i) {
    tensors.emplace_back("data." + std::to_string(i), batches[i].first);
    tensors.emplace_back("target." + std::to_string(i), batches[i].second);
  }
  std::vector<double> losses;
  for (int64_t step = 0; step < t.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(batches[static_cast<size_t>(step) % batches.size()]);
    loss.backward();
    if (step == 0 && t.gradients)
      for (const auto& p : model.named_parameters())
        tensors.emplace_back("gradients." + p.key(), p.value().grad().clone());
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  tensors.emplace_back("losses", tensor(losses, kFloat64));
  files.write(fmt::format("training-{}-{}", t.model, name_of(type)), tensors,
              {{"kind", "training"},
               {"model", t.model},
               {"arguments", t.arguments},
               {"loss", t.loss},
               {"dtype", name_of(type)},
               {"optimizer", t.optimizer},
               {"options", keywords(optimizer.param_groups()[0].options())},
               {"training", model.is_training()},
               {"batches", batches.size()},
               {"tolerance", t.tolerance}});
}

void two_layer(const Files& files, DType type, int64_t steps, double tolerance) {
  manual_seed(1);
  nn::Sequential model = models::mlp({1000, 100, 10});
  model->to(type);
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(1e-4));
  const std::vector<Batch> batches{{randn({64, 1000}, type), randn({64, 10}, type)}};
  record(files, {"TwoLayer", json::array(), "squared_error", "SGD", steps, tolerance}, *model,
         optimizer, batches,
         [&](const Batch& b) { return mse_loss(model(b.first), b.second, /*reduction=*/2); });
}

/// The dropout is off: masks drawn at random are nobody's to repeat.
void mnist_cnn(const Files& files) {
  manual_seed(2);
  models::MnistCnn model;
  model->to(kFloat64);
  model->eval();
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.01).momentum(0.5));
  std::vector<Batch> batches;
  for (int i = 0; i < 3; ++i)
    batches.emplace_back(randn({8, 1, 28, 28}, kFloat64), randint(0, 10, {8}));
  record(files, {"MnistCnn", json::array(), "negative_log_likelihood", "SGD"}, *model, optimizer,
         batches, [&](const Batch& b) { return nll_loss(model(b.first), b.second); });
}

void small_gpt(const Files& files, DType type, int64_t steps, double tolerance) {
  manual_seed(3);
  const auto options =
      models::GPTOptions().vocab_size(61).block_size(24).n_layer(2).n_head(4).n_embd(48);
  models::GPT model(options);
  model->to(type);
  optim::AdamW optimizer(model->parameters(), optim::AdamWOptions(1e-3));
  std::vector<Batch> batches;
  for (int i = 0; i < 4; ++i) {
    const Tensor ids = randint(0, options.vocab_size(), {4, 25});
    batches.emplace_back(ids.narrow(1, 0, 24), ids.narrow(1, 1, 24));
  }
  record(files,
         {"GPT", json::array({61, 24, 2, 4, 48}), "token_cross_entropy", "AdamW", steps, tolerance},
         *model, optimizer, batches, [&](const Batch& b) {
           return cross_entropy_loss(model(b.first).view({-1, options.vocab_size()}),
                                     b.second.reshape({-1}));
         });
}

/// In float32 only the first step is compared: further ones are chaotic in any framework.
void resnet18(const Files& files, DType type, int64_t steps, double tolerance) {
  manual_seed(4);
  models::ResNet model = models::resnet18(10);
  model->to(type);
  optim::SGD optimizer(model->parameters(),
                       optim::SGDOptions(0.01).momentum(0.9).weight_decay(1e-4));
  std::vector<Batch> batches;
  for (int i = 0; i < 2; ++i)
    batches.emplace_back(randn({4, 3, 48, 48}, type), randint(0, 10, {4}));
  record(files, {"ResNet18", json::array({10}), "cross_entropy", "SGD", steps, tolerance, true},
         *model, optimizer, batches,
         [&](const Batch& b) { return cross_entropy_loss(model(b.first), b.second); });
}

/// Twenty steps of an optimiser along given gradients: the parameters after each.
template <class O, class Options>
void record_optimizer(const Files& files, const std::string& name, Options options, DType type) {
  static int number = 0;
  manual_seed(5);
  const std::vector<Tensor> params{randn({3, 7}, type).requires_grad_(),
                                   randn({11}, type).requires_grad_()};
  // The second group has a learning rate of its own.
  Options second = options;
  second.lr(options.lr() * 0.5);
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{params[0]});
  groups.emplace_back(std::vector{params[1]}, std::make_unique<Options>(second));
  O optimizer(groups, options);
  io::NamedTensors tensors;
  const auto add = [&](const char* what, int step, size_t i, const Tensor& t) {
    tensors.emplace_back(fmt::format("{}.{}.{}", what, step, i), t.detach().clone());
  };
  for (size_t i = 0; i < params.size(); ++i) add("values", 0, i, params[i]);
  for (int step = 1; step <= 20; ++step) {
    for (size_t i = 0; i < params.size(); ++i) {
      const Tensor gradient = randn(params[i].sizes(), type).mul(step % 5 == 0 ? 10.0 : 0.5);
      add("gradients", step, i, gradient);
      params[i].mutable_grad() = gradient;
    }
    optimizer.step();
    for (size_t i = 0; i < params.size(); ++i) add("values", step, i, params[i]);
  }
  files.write(fmt::format("optimizer-{:02}-{}-{}", number++, name, name_of(type)), tensors,
              {{"kind", "optimizer"},
               {"optimizer", name},
               {"options", keywords(options)},
               {"second_lr", second.lr()},
               {"tolerance", type == kFloat64 ? 1e-12 : 2e-6}});
}

void record_optimizers(const Files& files, DType type) {
  using namespace optim;
  const auto sgd = [&](const SGDOptions& o) { record_optimizer<SGD>(files, "SGD", o, type); };
  sgd(SGDOptions(0.1));
  sgd(SGDOptions(0.1).momentum(0.9));
  sgd(SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.1));
  sgd(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  sgd(SGDOptions(0.1).weight_decay(0.2));
  const auto adam = [&](const AdamOptions& o) { record_optimizer<Adam>(files, "Adam", o, type); };
  adam(AdamOptions(0.01));
  adam(AdamOptions(0.01).weight_decay(0.1).betas({0.8, 0.9}).eps(1e-4));
  adam(AdamOptions(0.01).amsgrad(true));
  const auto adamw = [&](const AdamWOptions& o) {
    record_optimizer<AdamW>(files, "AdamW", o, type);
  };
  adamw(AdamWOptions(0.01));
  adamw(AdamWOptions(0.01).weight_decay(0.3).amsgrad(true).betas({0.5, 0.99}));
  const auto rms = [&](const RMSpropOptions& o) {
    record_optimizer<RMSprop>(files, "RMSprop", o, type);
  };
  rms(RMSpropOptions(0.01));
  rms(RMSpropOptions(0.01).momentum(0.9).weight_decay(0.1));
  rms(RMSpropOptions(0.01).centered(true).alpha(0.9));
  rms(RMSpropOptions(0.01).centered(true).momentum(0.5).eps(1e-3));
  const auto ada = [&](const AdagradOptions& o) {
    record_optimizer<Adagrad>(files, "Adagrad", o, type);
  };
  ada(AdagradOptions(0.1));
  ada(AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.1).initial_accumulator_value(0.5).eps(1e-5));
}

}  // namespace

TEST_CASE("parity: training runs are written for PyTorch") {
  const char* folder = std::getenv("PELLUCID_PARITY_DIR");
  if (!folder) return;
  const Files files{folder};
  two_layer(files, kFloat64, 30, 1e-8);
  two_layer(files, kFloat32, 100, 1e-3);
  mnist_cnn(files);
  small_gpt(files, kFloat64, 30, 1e-8);
  small_gpt(files, kFloat32, 100, 1e-3);
  resnet18(files, kFloat64, 30, 1e-8);
  resnet18(files, kFloat32, 1, 1e-4);
  for (const DType type : {kFloat64, kFloat32}) record_optimizers(files, type);
}
