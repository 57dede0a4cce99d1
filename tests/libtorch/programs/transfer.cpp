// Transfer: a backbone learns one task and is saved; a second program loads it, freezes it, puts a
// new head on it and trains that alone, with a data set without targets of its own on the way.
#include <cstdio>
#include <iostream>

#include "../libtorch.h"
#include "programs.h"

namespace programs::transfer_program {

torch::nn::Sequential make_backbone() {
  return torch::nn::Sequential({{"fc1", torch::nn::Linear(2, 32)},
                                {"act1", torch::nn::Tanh()},
                                {"fc2", torch::nn::Linear(torch::nn::LinearOptions(32, 16))},
                                {"act2", torch::nn::ReLU(/*inplace=*/true)}});
}

/// Points of the plane; inside or outside of a circle, and which quarter.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> make_points(int64_t count) {
  auto points = torch::rand({count, 2}) * 2 - 1;
  auto inside = (points.pow(2).sum(1) < 0.6).to(torch::kLong);
  auto quarter = (points.index({torch::indexing::Slice(), 0}) > 0).to(torch::kLong) * 2 +
                 (points.select(1, 1) > 0).to(torch::kLong);
  return std::make_tuple(points, inside, quarter);
}

void learn_first_task(const std::string& path, programs::Run& run) {
  auto backbone = make_backbone();
  torch::nn::Linear head(16, 2);
  torch::Tensor points, inside;
  std::tie(points, inside, std::ignore) = make_points(256);
  std::vector<torch::Tensor> parameters = backbone->parameters();
  for (const auto& p : head->parameters()) parameters.push_back(p);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(/*lr=*/1e-2));
  torch::nn::CrossEntropyLoss criterion;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    auto loss = criterion(head(backbone->forward(points)), inside);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    run.losses.push_back(loss.item<double>());
  }
  torch::save(backbone, path);
}

}  // namespace programs::transfer_program

programs::Run programs::transfer(const std::string& out) {
  using namespace transfer_program;
  torch::manual_seed(2);
  Run run;
  learn_first_task(out + "/backbone.pt", run);

  auto backbone = make_backbone();
  torch::load(backbone, out + "/backbone.pt");
  for (auto& parameter : backbone->named_parameters()) parameter.value().set_requires_grad(false);
  backbone->eval();

  torch::Tensor points, quarters;
  std::tie(points, std::ignore, quarters) = make_points(400);
  // The features are computed once, in batches of a data set that has no targets.
  auto rows = torch::data::datasets::TensorDataset(points).map(
      torch::data::transforms::Stack<torch::data::TensorExample>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(rows), /*options=*/100);
  std::vector<torch::Tensor> features;
  for (const torch::data::TensorExample& batch : *loader)
    features.push_back(backbone->forward(batch.data));
  const auto inputs = torch::cat(features);
  TORCH_CHECK(!inputs.requires_grad(), "a frozen backbone has a gradient");

  torch::nn::Linear head(16, 4);
  torch::nn::init::xavier_uniform_(head->weight);
  torch::nn::init::constant_(head->bias, 0);
  torch::optim::AdamW optimizer(head->parameters(),
                                torch::optim::AdamWOptions(0.05).weight_decay(1e-3));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/50, /*gamma=*/0.5);
  torch::Tensor best = torch::zeros({});
  for (int epoch = 0; epoch < 150; ++epoch) {
    auto output = head->forward(inputs);
    auto loss = torch::nn::functional::cross_entropy(output, quarters);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    scheduler.step();
    auto [values, indices] = torch::max(output, 1);
    auto accuracy = indices.eq(quarters).to(torch::kFloat).mean();
    if (accuracy.item<float>() > best.item<float>()) {
      best = accuracy;
      torch::save(head, out + "/best.pt");
    }
  }
  torch::nn::Linear loaded(16, 4);
  torch::load(loaded, out + "/best.pt");
  const auto correct =
      std::get<1>(loaded->forward(inputs).max(1)).eq(quarters).sum().item<int64_t>();
  run.result = static_cast<double>(correct) / static_cast<double>(points.size(0));
  TORCH_CHECK(std::abs(run.result - best.item<double>()) < 1e-6, "the best head was not saved");
  return run;
}
