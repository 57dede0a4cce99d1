// torch::data beyond the usual loop: data sets and samplers of the program's own, batches asked for
// by hand, transforms as functions and as classes, a shared data set, workers with a time limit.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>
#include <sstream>

#include "../libtorch.h"
#include "programs.h"

namespace programs::pipeline_program {

using namespace torch::data;

int64_t wrong = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "pipeline: " << what << " is wrong\n";
  ++wrong;
}

/// i and i * i.
struct Squares : datasets::Dataset<Squares> {
  explicit Squares(int64_t count) : count_(count) {}
  Example<> get(size_t index) override {
    const auto x = static_cast<double>(index);
    return {torch::full({2}, x), torch::tensor(x * x)};
  }
  torch::optional<size_t> size() const override { return count_; }
  size_t count_;
};

/// Numbers instead of examples.
struct Numbers : datasets::Dataset<Numbers, int> {
  int get(size_t index) override { return 1 + static_cast<int>(index); }
  torch::optional<size_t> size() const override { return 10; }
};

/// Whole batches for a request.
struct Windows : datasets::BatchDataset<Windows, std::vector<int64_t>> {
  std::vector<int64_t> get_batch(torch::ArrayRef<size_t> request) override {
    std::vector<int64_t> batch;
    for (const size_t i : request) batch.push_back(100 + static_cast<int64_t>(i));
    return batch;
  }
  torch::optional<size_t> size() const override { return 6; }
};

/// Every second index, then the others.
struct EvenFirst : samplers::Sampler<> {
  explicit EvenFirst(size_t size) : size_(size) {}
  void reset(torch::optional<size_t> new_size = torch::nullopt) override {
    if (new_size) size_ = *new_size;
    at_ = 0;
  }
  torch::optional<std::vector<size_t>> next(size_t batch_size) override {
    std::vector<size_t> batch;
    for (const size_t half = (size_ + 1) / 2; at_ < size_ && batch.size() < batch_size; ++at_)
      batch.push_back(at_ < half ? 2 * at_ : 2 * (at_ - half) + 1);
    if (batch.empty()) return torch::nullopt;
    return batch;
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    archive.write("at", torch::tensor(static_cast<int64_t>(at_)), /*is_buffer=*/true);
  }
  void load(torch::serialize::InputArchive& archive) override {
    auto at = torch::empty(1, torch::kInt64);
    archive.read("at", at, /*is_buffer=*/true);
    at_ = static_cast<size_t>(at.item<int64_t>());
  }
  size_t size_, at_ = 0;
};

struct Double : transforms::TensorTransform<> {
  torch::Tensor operator()(torch::Tensor input) override { return input * 2; }
};

void check_transforms() {
  auto dataset = Squares(8)
                     .map(Double())
                     .map(transforms::TensorLambda<>([](torch::Tensor t) { return t + 1; }))
                     .map(transforms::Lambda<Example<>>([](Example<> e) {
                       e.target = -e.target;
                       return e;
                     }))
                     .map(transforms::Stack<>());
  Example<> batch = dataset.get_batch({3, 1});
  expect(batch.data.equal(torch::tensor({{7.0f, 7.0f}, {3.0f, 3.0f}})), "transformed data");
  expect(batch.target.equal(torch::tensor({-9.0f, -1.0f})), "a transformed target");
  expect(dataset.size().value() == 8, "the size of a mapped data set");

  auto sums = datasets::map(Numbers(), transforms::Collate<int>([](std::vector<int> numbers) {
                              return std::accumulate(numbers.begin(), numbers.end(), 0);
                            }));
  expect(sums.get_batch({0, 9}) == 11, "a collated batch");
  auto texts = Numbers().map(
      transforms::Lambda<int, std::string>([](int number) { return std::to_string(number); }));
  expect(texts.get_batch({4})[0] == "5", "a batch of another type");
}

void check_loaders() {
  int64_t sum = 0;
  std::vector<int64_t> order;
  auto windows = make_data_loader(Windows(), EvenFirst(6), DataLoaderOptions(4));
  for (const auto& batch : *windows)
    for (const int64_t number : batch) order.push_back(number - 100);
  expect(order == std::vector<int64_t>({0, 2, 4, 1, 3, 5}), "the order of a sampler");

  auto shared = datasets::make_shared_dataset<Numbers>();
  expect(shared->get(1) == 2, "a shared data set");
  auto loader = make_data_loader(
      shared, DataLoaderOptions().batch_size(3).workers(2).timeout(std::chrono::seconds(20)));
  for (const std::vector<int>& batch : *loader)
    sum += std::accumulate(batch.begin(), batch.end(), 0);
  expect(sum == 55, "the sum of all batches");

  auto random = make_data_loader<samplers::RandomSampler>(Squares(10).map(transforms::Stack<>()),
                                                          DataLoaderOptions(4).drop_last(true));
  size_t batches = 0;
  double total = 0;
  for (auto it = random->begin(); it != random->end(); ++it, ++batches)
    total += it->target.sum().item<double>();
  expect(batches == 2 && total > 0 && total < 285, "the batches of a random order");
}

void check_samplers() {
  samplers::SequentialSampler sequential(5);
  expect(sequential.next(3).value() == std::vector<size_t>({0, 1, 2}), "the first batch");
  torch::serialize::OutputArchive out;
  sequential.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  samplers::SequentialSampler resumed(5);
  resumed.load(in);
  expect(resumed.next(3).value() == std::vector<size_t>({3, 4}), "the batch after a load");
  expect(!resumed.next(3).has_value(), "the end of a sampler");

  EvenFirst own(4);
  own.next(3);
  torch::serialize::OutputArchive archive;
  own.save(archive);
  std::stringstream saved;
  archive.save_to(saved);
  torch::serialize::InputArchive read;
  read.load_from(saved);
  EvenFirst again(4);
  again.load(read);
  expect(again.next(3).value() == std::vector<size_t>({3}), "a sampler of one's own, loaded");
  samplers::RandomSampler random(6, torch::kInt64);
  random.reset();
  auto all = random.next(10).value();
  std::sort(all.begin(), all.end());
  expect(all == std::vector<size_t>({0, 1, 2, 3, 4, 5}), "what a random sampler visits");
}

}  // namespace programs::pipeline_program

programs::Run programs::pipeline() {
  using namespace pipeline_program;
  torch::manual_seed(5);
  wrong = 0;
  check_transforms();
  check_loaders();
  check_samplers();
  return {{}, static_cast<double>(wrong)};
}
