// A training loop as libtorch's MNIST example writes it: the names, signatures and implicit
// conversions that such programs use.
#include <doctest/doctest.h>

#include "pellucid/data.h"
#include "pellucid/optim.h"
#include "pellucid/serialize.h"
#include "pellucid/torch.h"
#include "temporary.h"

TEST_CASE("libtorch's names: data loader, optimiser, save and load in one loop") {
  torch::manual_seed(1);
  // Bright columns on the left or right are the two classes.
  torch::Tensor images = torch::randint(0, 60, {120, 6, 6}, torch::kUInt8);
  torch::Tensor labels = torch::arange(120, torch::kInt64).remainder(2);
  for (int64_t i = 0; i < 120; ++i) images[i].select(1, i % 2 ? 5 : 0).fill_(250);
  auto train_dataset = torch::data::datasets::MNIST(images, labels)
                           .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
                           .map(torch::data::transforms::Stack<>());
  const size_t train_dataset_size = train_dataset.size().value();
  CHECK(train_dataset_size == 120);
  const int64_t kTrainBatchSize = 16;
  auto train_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(train_dataset), kTrainBatchSize);

  torch::Tensor weight = torch::zeros({36, 2}).requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.01).momentum(0.5));
  torch::optim::Adam other({weight},
                           torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.5)));
  torch::optim::SGD plain({weight}, /*lr=*/0.01);
  double first = 0, last = 0;
  for (size_t epoch = 1; epoch <= 4; ++epoch)
    for (auto& batch : *train_loader) {
      auto data = batch.data.to(torch::kCPU), targets = batch.target.to(torch::kCPU);
      optimizer.zero_grad();
      auto output = torch::log_softmax(data.view({-1, 36}).matmul(weight), 1);
      auto loss = torch::nll_loss(output, targets);
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (first == 0) first = last;
    }
  CHECK(last < first / 4);
  for (auto& group : optimizer.param_groups())
    if (group.has_options()) {
      auto& options = static_cast<torch::optim::SGDOptions&>(group.options());
      options.lr(options.lr() * 0.5);
      CHECK(options.lr() == 0.005);
    }
  const pellucid::test::TemporaryFolder folder;
  torch::save(optimizer, folder / "optimizer.pt");
  torch::load(plain, folder / "optimizer.pt");
  CHECK(static_cast<torch::optim::SGDOptions&>(plain.param_groups()[0].options()).momentum() ==
        0.5);
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  CHECK(!archive.values().empty());
}
