// A data set of the program's own, read by two workers, and a Sequential that is made of layers and
// of functions with bound arguments.
#include <cstdio>
#include <vector>

#include "../libtorch.h"
#include "programs.h"

namespace programs::custom_dataset_program {

struct Options {
  int64_t image_size = 16;
  size_t train_batch_size = 16;
  size_t test_batch_size = 40;
  size_t iterations = 4;
  torch::DeviceType device = torch::kCPU;
};
Options options;

using Data = std::vector<std::pair<std::vector<uint8_t>, int64_t>>;

/// Colour images of which one channel is brighter than the others: that is the class.
Data make_images(size_t count, uint32_t seed) {
  Data data;
  const auto pixels = static_cast<size_t>(options.image_size * options.image_size);
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<int64_t>(i % 3);
    std::vector<uint8_t> bytes(pixels * 3);
    for (size_t p = 0; p < bytes.size(); ++p) {
      seed = seed * 1664525u + 1013904223u;
      bytes[p] = static_cast<uint8_t>((seed >> 24) % 120 + (p % 3 == i % 3 ? 100 : 0));
    }
    data.emplace_back(std::move(bytes), label);
  }
  return data;
}

class CustomDataset : public torch::data::datasets::Dataset<CustomDataset> {
  using Example = torch::data::Example<>;
  Data data;

 public:
  explicit CustomDataset(const Data& data) : data(data) {}

  Example get(size_t index) override {
    auto& bytes = data[index].first;
    auto timage =
        torch::from_blob(bytes.data(), {options.image_size, options.image_size, 3}, torch::kByte);
    auto tdata = timage.permute({2, 0, 1}).to(torch::kF32).div(255);
    auto tlabel = torch::from_blob(&data[index].second, {1}, torch::kLong).clone();
    return {tdata, tlabel};
  }
  torch::optional<size_t> size() const override { return data.size(); }
};

struct NetworkImpl : torch::nn::SequentialImpl {
  NetworkImpl() {
    using namespace torch::nn;
    auto stride = torch::ExpandingArray<2>({2, 2});
    torch::ExpandingArray<2> shape({-1, 16 * 3 * 3});
    push_back(Conv2d(Conv2dOptions(3, 8, 5).stride(1).padding(2)));
    push_back(Functional(torch::relu));
    push_back(Functional(torch::max_pool2d, 3, stride, 0, 1, false));
    push_back(Conv2d(Conv2dOptions(8, 16, 3).padding(1)));
    push_back(Functional(torch::relu));
    push_back(Functional(torch::max_pool2d, 3, stride, 0, 1, false));
    push_back(Functional(torch::reshape, shape));
    push_back(Dropout());
    push_back(Linear(16 * 3 * 3, 24));
    push_back(Functional(torch::relu));
    push_back("head", Linear(24, 3));
    push_back(Functional(torch::log_softmax, 1, torch::nullopt));
  }
};
TORCH_MODULE(Network);

template <typename DataLoader>
void train(Network& network, DataLoader& loader, torch::optim::Optimizer& optimizer, size_t epoch,
           size_t data_size, programs::Run& run) {
  size_t index = 0;
  network->train();
  float loss_sum = 0, correct = 0;
  for (auto& batch : loader) {
    auto data = batch.data.to(options.device);
    auto targets = batch.target.to(options.device).view({-1});
    auto output = network->forward(data);
    auto loss = torch::nll_loss(output, targets);
    assert(!std::isnan(loss.template item<float>()));
    auto accuracy = output.argmax(1).eq(targets).sum();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_sum += loss.template item<float>();
    correct += accuracy.template item<float>();
    run.losses.push_back(loss.template item<double>());
    ++index;
  }
  std::printf("Train Epoch: %zu %zu/%zu Loss: %.4f Acc: %.3f\n", epoch, data_size, data_size,
              loss_sum / static_cast<float>(index), correct / static_cast<float>(data_size));
}

template <typename DataLoader> double test(Network& network, DataLoader& loader, size_t data_size) {
  network->eval();
  torch::NoGradGuard no_grad;
  double correct = 0;
  for (const auto& batch : loader) {
    auto data = batch.data.to(options.device);
    auto targets = batch.target.to(options.device).view({-1});
    auto output = network->forward(data);
    correct += output.argmax(1).eq(targets).sum().template item<double>();
  }
  return correct / static_cast<double>(data_size);
}

}  // namespace programs::custom_dataset_program

programs::Run programs::custom_dataset() {
  using namespace custom_dataset_program;
  torch::manual_seed(1);
  if (torch::cuda::is_available()) options.device = torch::kCUDA;
  auto train_set = CustomDataset(make_images(120, 1)).map(torch::data::transforms::Stack<>());
  auto train_size = train_set.size().value();
  auto train_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(train_set), torch::data::DataLoaderOptions()
                                .batch_size(options.train_batch_size)
                                .workers(2)
                                .drop_last(true));
  auto test_set = CustomDataset(make_images(60, 7)).map(torch::data::transforms::Stack<>());
  auto test_size = test_set.size().value();
  auto test_loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      std::move(test_set), options.test_batch_size);

  Network network;
  network->to(options.device);
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(1e-5));
  Run run;
  for (size_t i = 0; i < options.iterations; ++i)
    train(network, *train_loader, optimizer, i + 1, train_size, run);
  run.result = test(network, *test_loader, test_size);
  return run;
}
