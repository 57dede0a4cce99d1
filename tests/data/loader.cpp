// Data sets, transforms, samplers and loaders: the fast path equals the plain one, the order does
// not depend on workers, and a saved position goes on where it was.
#include <doctest/doctest.h>

#include <atomic>

#include "pellucid/data.h"
#include "pellucid/memory.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::data;

namespace {

/// x = index as float, target = index squared, and a failure on demand.
struct Squares : datasets::Dataset<Squares> {
  explicit Squares(size_t n, size_t fails_at = SIZE_MAX) : n(n), fails_at(fails_at) {}
  Example<> get(size_t i) override {
    PELLUCID_CHECK(i != fails_at, ValueError, "Squares: example {} is broken.", i);
    return {full({2}, static_cast<double>(i)), tensor(static_cast<int64_t>(i * i))};
  }
  std::optional<size_t> size() const override { return n; }
  size_t n, fails_at;
};

datasets::MNIST images() { return {randint(0, 256, {10, 4, 3}, kUInt8), arange(10, kInt64)}; }

template <class Loader> std::vector<int64_t> targets(Loader& loader) {
  std::vector<int64_t> all;
  for (auto& batch : loader)
    for (int64_t i = 0; i < batch.target.numel(); ++i)
      all.push_back(batch.target[i].template item<int64_t>());
  return all;
}

}  // namespace

TEST_CASE("data: libtorch's MNIST loop, whole batches equal to stacked examples") {
  const datasets::MNIST set = images();
  const auto plain = [&](std::vector<size_t> indices) {
    std::vector<Tensor> data;
    for (const size_t i : indices)
      data.push_back(set.images()[static_cast<int64_t>(i)].sub(0.1307).div(0.3081));
    return stack(data);
  };
  auto mapped =
      datasets::MNIST(set).map(transforms::Normalize<>(0.1307, 0.3081)).map(transforms::Stack<>());
  static_assert(
      datasets::WholeBatches<datasets::MapDataset<datasets::MNIST, transforms::Normalize<>>>);
  const std::vector<size_t> indices{3, 0, 9};
  const Example<> batch = mapped.get_batch(indices);
  CHECK(batch.data.sizes() == IntArrayRef({3, 1, 4, 3}));
  CHECK(batch.data.allclose(plain(indices), 1e-6, 1e-6));
  CHECK(batch.target.equal(tensor({3, 0, 9})));
  // The same through examples, one by one.
  auto slow = datasets::MNIST(set)
                  .map(transforms::Normalize<>(0.1307, 0.3081))
                  .map(transforms::TensorLambda<>([](Tensor t) { return t; }))
                  .map(transforms::Stack<>());
  static_assert(!datasets::WholeBatches<decltype(slow)>);
  CHECK(slow.get_batch(indices).data.allclose(batch.data, 1e-6, 1e-6));
  // Two normalisations are one.
  auto twice = datasets::MNIST(set)
                   .map(transforms::Normalize<>(0.5, 0.25))
                   .map(transforms::Normalize<>(0.1, 2.0))
                   .map(transforms::Stack<>());
  CHECK(twice.get_batch(indices).data.allclose(
      set.images().index_select(0, tensor({3, 0, 9})).sub(0.5).div(0.25).sub(0.1).div(2), 1e-5,
      1e-5));
  CHECK_THROWS_AS(mapped.get_batch(std::vector<size_t>{10}), IndexError);
  CHECK_THROWS_AS(datasets::MNIST(set).get(10), IndexError);
}

TEST_CASE("data: a batch in memory makes two tensors, not one an example") {
  auto mapped = datasets::MNIST(randint(0, 256, {200, 8, 8}, kUInt8), arange(200, kInt64))
                    .map(transforms::Normalize<>(0.1, 0.3))
                    .map(transforms::Stack<>());
  std::vector<size_t> indices(128, 7);
  mapped.get_batch(indices);
  const int64_t before = memory_stats().allocations;
  mapped.get_batch(indices);
  CHECK(memory_stats().allocations - before < 12);
}

TEST_CASE("data: tensors and pairs as data sets") {
  const Tensor x = arange(12, kFloat32).view({4, 3});
  auto plain = datasets::TensorDataset(x).map(transforms::Stack<TensorExample>());
  CHECK(plain.get_batch(std::vector<size_t>{2, 2, 0})
            .data.equal(x.index_select(0, tensor({2, 2, 0}))));
  CHECK(datasets::TensorDataset({ones({2}), zeros({2})}).get(1).data.equal(zeros({2})));
  datasets::PairDataset pairs(x, arange(4, kInt64));
  CHECK(pairs.get(2).target.item<int64_t>() == 2);
  auto stacked = pairs.map(transforms::Normalize<>(1.0, 2.0)).map(transforms::Stack<>());
  const std::vector<size_t> three{3, 1, 0};
  const Tensor whole = stacked.get_batch(three).data;
  auto one_by_one = pairs.map(transforms::Normalize<>(1.0, 2.0))
                        .map(transforms::TensorLambda<>([](Tensor t) { return t; }))
                        .map(transforms::Stack<>());
  CHECK(whole.equal(one_by_one.get_batch(three).data));
  CHECK(whole.sizes() == IntArrayRef({3, 1, 1, 3}));  // the mean has three dimensions
  CHECK(whole.view({3, 3})[0].allclose(x[3].sub(1).div(2)));
  datasets::PairDataset doubles(x.to(kFloat64), arange(4, kInt64));
  CHECK(doubles.map(transforms::Normalize<>(1.0, 2.0))
            .map(transforms::Stack<>())
            .get_batch(three)
            .data.dtype() == kFloat64);
  CHECK_THROWS_WITH_AS(datasets::PairDataset(x, arange(3)), doctest::Contains("4 examples but 3"),
                       ShapeError);
  CHECK_THROWS_AS(datasets::TensorDataset(tensor(1.0)), ShapeError);
}

TEST_CASE("data: the order does not depend on the workers, and every example comes once") {
  std::vector<int64_t> first;
  for (const size_t workers : {0, 1, 2, 5}) {
    manual_seed(3);
    auto loader = make_data_loader(Squares(53).map(transforms::Stack<>()),
                                   DataLoaderOptions().batch_size(8).workers(workers));
    const std::vector<int64_t> one = targets(*loader), two = targets(*loader);
    CHECK(one.size() == 53);
    CHECK(one != two);  // shuffled anew
    std::vector<int64_t> all(one);
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < 53; ++i) CHECK(all[i] == static_cast<int64_t>(i * i));
    if (first.empty()) first = two;
    CHECK(two == first);
  }
}

TEST_CASE("data: batch sizes, drop_last, samplers, leaving a loop early") {
  auto loader =
      make_data_loader<samplers::SequentialSampler>(Squares(10).map(transforms::Stack<>()), 4);
  std::vector<int64_t> sizes;
  for (auto& batch : *loader) sizes.push_back(batch.data.size(0));
  CHECK(sizes == std::vector<int64_t>{4, 4, 2});
  auto dropping = make_data_loader<samplers::SequentialSampler>(
      Squares(10).map(transforms::Stack<>()), DataLoaderOptions(4).drop_last(true).workers(2));
  CHECK(targets(*dropping).size() == 8);
  for (auto& batch : *dropping) {
    CHECK(batch.data.size(0) == 4);
    break;
  }
  CHECK(targets(*dropping).size() == 8);  // a new epoch, from its beginning
  auto given = make_data_loader(Squares(10).map(transforms::Stack<>()),
                                samplers::SequentialSampler(3), DataLoaderOptions(2));
  CHECK(targets(*given) == std::vector<int64_t>{0, 1, 4});
  auto more = make_data_loader(Squares(3).map(transforms::Stack<>()), 100);
  CHECK(targets(*more).size() == 3);
  auto none = make_data_loader(Squares(0).map(transforms::Stack<>()), 4);
  CHECK(targets(*none).empty());
  CHECK_THROWS_AS(make_data_loader(Squares(3), DataLoaderOptions(0)), ValueError);
  auto examples = make_data_loader(Squares(5), 2);  // without Stack: vectors of examples
  CHECK((*examples->begin()).size() == 2);
}

TEST_CASE("data: an error in a worker reaches the loop, at its batch") {
  for (const size_t workers : {0, 2}) {
    auto loader = make_data_loader<samplers::SequentialSampler>(
        Squares(20, 9).map(transforms::Stack<>()), DataLoaderOptions(4).workers(workers));
    int batches = 0;
    CHECK_THROWS_WITH_AS(for ([[maybe_unused]] auto& batch
                              : *loader)++ batches,
                         doctest::Contains("example 9 is broken"), ValueError);
    CHECK(batches == 2);
  }
}

TEST_CASE("data: a batch that does not come in time is an error, not a wait") {
  std::atomic<bool> released = false;
  struct Stuck : datasets::Dataset<Stuck> {
    explicit Stuck(std::atomic<bool>& flag) : released(&flag) {}
    Example<> get(size_t) override {
      released->wait(false);
      return {ones({1}), ones({1})};
    }
    std::optional<size_t> size() const override { return 4; }
    std::atomic<bool>* released;
  };
  auto loader = make_data_loader(
      Stuck(released), DataLoaderOptions(2).workers(1).timeout(std::chrono::milliseconds(5)));
  CHECK_THROWS_WITH_AS(loader->begin(), doctest::Contains("timeout of 5 ms"), IoError);
  released = true;
  released.notify_all();
}

TEST_CASE("data: a saved position in the epoch goes on there, whatever the workers") {
  for (const size_t workers : {0, 2}) {
    manual_seed(11);
    const auto make = [&] {
      return make_data_loader(Squares(30).map(transforms::Stack<>()),
                              DataLoaderOptions(4).workers(workers));
    };
    auto loader = make();
    targets(*loader);
    std::vector<int64_t> taken, rest;
    NamedValues saved;
    int count = 0;
    for (auto& batch : *loader) {
      std::vector<int64_t>& to = count < 3 ? taken : rest;
      for (int64_t i = 0; i < batch.target.numel(); ++i)
        to.push_back(batch.target[i].item<int64_t>());
      if (++count == 3) saved = loader->state_dict();
    }
    manual_seed(99);
    auto other = make();
    other->load_state_dict(saved);
    CHECK(targets(*other) == rest);
    CHECK(targets(*other).size() == 30);  // the next epoch is whole again
    auto fresh = make();
    fresh->load_state_dict(other->state_dict());  // saved between epochs
    CHECK(targets(*fresh).size() == 30);
    auto wrong = make_data_loader(Squares(30).map(transforms::Stack<>()), 5);
    CHECK_THROWS_WITH_AS(wrong->load_state_dict(saved), doctest::Contains("batch size 4"),
                         ValueError);
    auto smaller = make_data_loader(Squares(29).map(transforms::Stack<>()), 4);
    CHECK_THROWS_WITH_AS(smaller->load_state_dict(saved), doctest::Contains("30 examples"),
                         ValueError);
  }
}

TEST_CASE("data: windows of a text") {
  const Tensor ids = arange(10, kInt64);
  auto set = datasets::TextDataset(ids, 4);
  CHECK(*set.size() == 6);
  CHECK(set.get(5).data.equal(arange(5, 9, kInt64)));
  CHECK(set.get(5).target.equal(arange(6, 10, kInt64)));
  auto whole = datasets::TextDataset(ids, 4, 4).map(transforms::Stack<>());
  CHECK(*whole.size() == 2);
  const Example<> batch = whole.get_batch(std::vector<size_t>{1, 0});
  CHECK(batch.data.equal(tensor({{4, 5, 6, 7}, {0, 1, 2, 3}})));
  CHECK(batch.target.equal(tensor({{5, 6, 7, 8}, {1, 2, 3, 4}})));
  CHECK_THROWS_AS(set.get(6), IndexError);
  CHECK_THROWS_AS(whole.get_batch(std::vector<size_t>{2}), IndexError);
  CHECK_THROWS_WITH_AS(datasets::TextDataset(ids, 10), doctest::Contains("too few"), ValueError);
  CHECK_THROWS_AS(datasets::TextDataset(ones({9}), 2), ShapeError);
}

TEST_CASE("data: what transforms draw at random does not depend on workers or on a resume") {
  const auto run = [](size_t workers, bool resumed) {
    manual_seed(8);
    const auto make = [&] {
      return make_data_loader(
          Squares(23)
              .map(transforms::TensorLambda<>([](Tensor t) { return t.add(rand({2})); }))
              .map(transforms::Stack<>()),
          DataLoaderOptions(5).workers(workers));
    };
    auto loader = make();
    std::vector<double> sums;
    for (int epoch = 0; epoch < 2; ++epoch) {
      NamedValues saved;
      for (auto& batch : *loader) {
        sums.push_back(batch.data.sum().item<double>());
        sums.push_back(rand({1}).item<double>());  // the loop draws too
        if (resumed && epoch == 1 && sums.size() == 14) {
          saved = loader->state_dict();
          break;
        }
      }
      if (saved.empty()) continue;
      loader = make();
      loader->load_state_dict(saved);
      for (auto& batch : *loader) {
        sums.push_back(batch.data.sum().item<double>());
        sums.push_back(rand({1}).item<double>());
      }
    }
    return sums;
  };
  const std::vector<double> first = run(0, false);
  CHECK(first.size() == 20);
  CHECK(first[0] != first[10]);
  for (const size_t workers : {0, 1, 3})
    for (const bool resumed : {false, true}) CHECK(run(workers, resumed) == first);
}

TEST_CASE("data: each worker has one copy of the data set, which keeps its state") {
  struct Counting : datasets::Dataset<Counting> {
    explicit Counting(std::shared_ptr<std::atomic<int>> n) : copies(std::move(n)) {}
    Counting(const Counting& o) : copies(o.copies) { ++*copies; }
    Counting(Counting&&) = default;
    Counting& operator=(const Counting&) = default;
    Example<> get(size_t) override { return {full({1}, calls++), ones({1})}; }
    std::optional<size_t> size() const override { return 30; }
    std::shared_ptr<std::atomic<int>> copies;
    int64_t calls = 0;
  };
  const auto copies = std::make_shared<std::atomic<int>>(0);
  auto loader = make_data_loader<samplers::SequentialSampler>(Counting(copies),
                                                              DataLoaderOptions(1).workers(1));
  const int before = *copies;
  int64_t next = 0;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& batch : *loader) CHECK(batch[0].data.item<int64_t>() == next++);
  CHECK(next == 60);
  CHECK(*copies - before <= 2);  // not one a batch
}

TEST_CASE("data: a stream gives what comes next, an epoch at a time") {
  struct Stream : datasets::StreamDataset<Stream> {
    std::vector<Example<>> get_batch(size_t count) override {
      std::vector<Example<>> batch;
      while (batch.size() < count) batch.push_back({full({1}, next++), ones({1})});
      return batch;
    }
    std::optional<size_t> size() const override { return std::nullopt; }
    int64_t next = 0;
  };
  auto loader = make_data_loader(Stream().map(transforms::Stack<>()), samplers::StreamSampler(10),
                                 DataLoaderOptions(4));
  std::vector<int64_t> sizes;
  int64_t last = -1;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& batch : *loader) {
      sizes.push_back(batch.data.size(0));
      last = batch.data[-1].item<int64_t>();
    }
  CHECK(sizes == std::vector<int64_t>{4, 4, 2, 4, 4, 2});
  CHECK(last == 19);
}

TEST_CASE("data: processes share an order between them") {
  const auto all = [](auto& sampler) {
    std::vector<size_t> seen;
    while (const auto batch = sampler.next(3))
      seen.insert(seen.end(), batch->begin(), batch->end());
    return seen;
  };
  samplers::DistributedSequentialSampler first(10, 3, 0), last(10, 3, 2), fewer(10, 3, 2, false);
  CHECK(all(first) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(all(last) == std::vector<size_t>{8, 9, 0, 1});  // filled up from the beginning
  CHECK(all(fewer) == std::vector<size_t>{6, 7, 8});
  std::vector<size_t> together, epoch1;
  for (size_t rank = 0; rank < 2; ++rank) {
    samplers::DistributedRandomSampler s(10, 2, rank);
    for (const size_t i : all(s)) together.push_back(i);
    s.set_epoch(1);
    s.reset();
    for (const size_t i : all(s)) epoch1.push_back(i);
  }
  CHECK(together != epoch1);
  std::sort(together.begin(), together.end());
  for (size_t i = 0; i < 10; ++i) CHECK(together[i] == i);
  samplers::DistributedRandomSampler whole(10, 2, 1), resumed(10, 2, 1);
  whole.set_epoch(5);
  whole.next(2);
  resumed.load_state_dict(whole.state_dict());
  CHECK(all(resumed) == all(whole));
  CHECK_THROWS_AS(samplers::DistributedRandomSampler(10, 2, 2), ValueError);
}
