// The CNN on MNIST as libtorch's users train it: two convolutions, dropout of channels, SGD with
// momentum, then the accuracy on the test images.
#include <cstddef>
#include <cstdio>

#include "../libtorch.h"
#include "programs.h"

namespace programs::mnist_program {

const int64_t kTrainBatchSize = 64;
const int64_t kTestBatchSize = 100;

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
    x = torch::dropout(x, /*p=*/0.5, /*training=*/is_training());
    x = fc2->forward(x);
    return torch::log_softmax(x, /*dim=*/1);
  }

  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};

template <typename DataLoader>
void train(int64_t epoch, Net& model, torch::Device device, DataLoader& data_loader,
           torch::optim::Optimizer& optimizer, size_t dataset_size, int64_t batches,
           programs::Run& run) {
  model.train();
  int64_t batch_idx = 0;
  for (auto& batch : data_loader) {
    auto data = batch.data.to(device), targets = batch.target.to(device);
    optimizer.zero_grad();
    auto output = model.forward(data);
    auto loss = torch::nll_loss(output, targets);
    AT_ASSERT(!std::isnan(loss.template item<float>()));
    loss.backward();
    optimizer.step();
    if (batch_idx++ == 0)
      std::printf("Train Epoch: %ld [%5ld/%5ld] Loss: %.4f\n", static_cast<long>(epoch),
                  static_cast<long>(batch_idx * batch.data.size(0)),
                  static_cast<long>(dataset_size), loss.template item<float>());
    run.losses.push_back(loss.template item<double>());
    if (batch_idx == batches) break;
  }
}

template <typename DataLoader>
double test(Net& model, torch::Device device, DataLoader& data_loader, int64_t batches) {
  torch::NoGradGuard no_grad;
  model.eval();
  double test_loss = 0;
  int32_t correct = 0;
  int64_t seen = 0;
  for (const auto& batch : data_loader) {
    auto data = batch.data.to(device), targets = batch.target.to(device);
    auto output = model.forward(data);
    test_loss += torch::nll_loss(output, targets, /*weight=*/{}, torch::Reduction::Sum)
                     .template item<float>();
    auto pred = output.argmax(1);
    correct += pred.eq(targets).sum().template item<int64_t>();
    seen += targets.numel();
    if (--batches == 0) break;
  }
  std::printf("Test set: Average loss: %.4f | Accuracy: %.3f\n",
              test_loss / static_cast<double>(seen), static_cast<double>(correct) / seen);
  return static_cast<double>(correct) / static_cast<double>(seen);
}

}  // namespace programs::mnist_program

programs::Run programs::mnist(const std::string& data_root, int64_t epochs, int64_t batches) {
  using namespace mnist_program;
  torch::manual_seed(1);
  torch::DeviceType device_type;
  if (torch::cuda::is_available())
    device_type = torch::kCUDA;
  else
    device_type = torch::kCPU;
  torch::Device device(device_type);

  Net model;
  model.to(device);

  auto train_dataset = torch::data::datasets::MNIST(data_root)
                           .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
                           .map(torch::data::transforms::Stack<>());
  const size_t train_dataset_size = train_dataset.size().value();
  auto train_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(train_dataset), kTrainBatchSize);

  auto test_dataset =
      torch::data::datasets::MNIST(data_root, torch::data::datasets::MNIST::Mode::kTest)
          .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
          .map(torch::data::transforms::Stack<>());
  auto test_loader = torch::data::make_data_loader(std::move(test_dataset), kTestBatchSize);

  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.02).momentum(0.5));
  Run run;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    train(epoch, model, device, *train_loader, optimizer, train_dataset_size, batches, run);
    run.result = test(model, device, *test_loader, batches);
  }
  return run;
}
