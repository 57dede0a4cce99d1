// Iterators, containers and samplers at and beyond their ends.
#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

namespace {

using namespace torch::data;
using Sequential = samplers::SequentialSampler;

auto numbers(int64_t n) { return datasets::TensorDataset(torch::arange(n)); }

}  // namespace

TEST_CASE("data iterators: past the end there is neither a batch nor a next one") {
  for (const size_t workers : {0, 2}) {
    auto loader = make_data_loader<Sequential>(numbers(5), DataLoaderOptions(2).workers(workers));
    auto i = loader->begin();
    for (int batch = 0; batch < 3; ++batch) ++i;
    CHECK(i == loader->end());
    CHECK_THROWS_AS(*i, torch::IndexError);
    CHECK_THROWS_AS(i->clear(), torch::IndexError);
    CHECK_THROWS_AS(++i, torch::IndexError);
    CHECK_THROWS_AS(*loader->end(), torch::IndexError);
    auto end = loader->end();
    CHECK_THROWS_AS(++end, torch::IndexError);
    size_t seen = 0;
    for (auto& batch : *loader) seen += batch.size();  // the next epoch
    CHECK(seen == 5);
  }
}

TEST_CASE("data iterators: an empty data set has no batch") {
  for (const size_t workers : {0, 2}) {
    auto loader = make_data_loader(numbers(0), DataLoaderOptions(2).workers(workers));
    CHECK(loader->begin() == loader->end());
    CHECK_THROWS_AS(*loader->begin(), torch::IndexError);
    for (auto& batch : *loader) CHECK(batch.size() == 0);
  }
  auto dropped = make_data_loader<Sequential>(numbers(3), DataLoaderOptions(4).drop_last(true));
  CHECK(dropped->begin() == dropped->end());
}

TEST_CASE("data iterators: an iterator knows when its loader goes on without it") {
  auto loader = make_data_loader<Sequential>(numbers(6), DataLoaderOptions(2));
  auto first = loader->begin();
  auto second = loader->begin();
  CHECK(first->size() == 2);  // its batch is its own
  CHECK_THROWS_AS(++first, torch::ValueError);
  ++second;
  CHECK((*second)[0].data.item<int64_t>() == 2);
  auto copy = second;
  CHECK(copy == second);
  ++copy;
  CHECK(copy != second);
  CHECK((*copy)[0].data.item<int64_t>() == 4);
  ++copy;
  CHECK(copy == loader->end());
  CHECK_THROWS_AS(++second, torch::IndexError);
  auto third = loader->begin();
  loader->join();
  CHECK_THROWS_AS(++third, torch::ValueError);
  auto last = loader->begin();
  loader.reset();
  CHECK(last->size() == 2);
  CHECK_THROWS_AS(++last, torch::ValueError);
}

TEST_CASE("containers: nothing is taken from an empty one") {
  torch::OrderedDict<std::string, int> dict;
  const auto& constant = dict;
  CHECK_THROWS_AS(dict.front(), torch::IndexError);
  CHECK_THROWS_AS(dict.back(), torch::IndexError);
  CHECK_THROWS_AS(constant.front(), torch::IndexError);
  CHECK_THROWS_AS(constant.back(), torch::IndexError);
  CHECK_THROWS_AS(dict[0], torch::IndexError);
  CHECK_THROWS_AS(dict["a"], torch::IndexError);
  dict.insert("a", 1);
  CHECK(dict.front().value() == 1);
  CHECK(dict.back().key() == "a");
  CHECK_THROWS_AS(dict[1], torch::IndexError);
  auto moved = std::move(dict);
  CHECK(moved.size() == 1);
  CHECK_THROWS_AS(dict.front(), torch::IndexError);
  size_t items = 0;
  for (const auto& item : torch::nn::Linear(2, 3)->named_parameters().items())
    items += item.key().size() + item.value().numel();
  CHECK(items == 6 + 6 + 4 + 3);

  const torch::IntArrayRef none;
  CHECK_THROWS_AS(none.front(), torch::IndexError);
  CHECK_THROWS_AS(none.back(), torch::IndexError);
  CHECK_THROWS_AS(none.at(0), torch::IndexError);
  CHECK_THROWS_AS(none.slice(1), torch::IndexError);
  CHECK_THROWS_AS(none.slice(0, 1), torch::IndexError);
  const std::vector<int64_t> values = {1, 2, 3};
  const torch::IntArrayRef some = values;
  CHECK(some.slice(1, 2).back() == 3);
  CHECK_THROWS_AS(some.slice(2, 2), torch::IndexError);
  CHECK_THROWS_AS(some.slice(4), torch::IndexError);

  torch::nn::ModuleList list;
  torch::nn::ModuleDict modules;
  torch::nn::ParameterList parameters;
  torch::nn::Sequential sequential;
  CHECK_THROWS_AS(list[0], torch::Error);
  CHECK_THROWS_AS(list->ptr(0), torch::Error);
  CHECK_THROWS_AS(list->insert(1, torch::nn::Linear(1, 1).ptr()), torch::Error);
  CHECK_THROWS_AS(modules["a"], torch::Error);
  CHECK_THROWS_AS(modules->pop("a"), torch::Error);
  CHECK_THROWS_AS(parameters[0], torch::Error);
  CHECK_THROWS_AS(sequential[0], torch::Error);
  CHECK_THROWS_AS(sequential->ptr(0), torch::Error);
  CHECK_THROWS_AS(sequential->forward(torch::ones({1})), torch::Error);
}

namespace {

template <class Sampler> auto rest(Sampler& sampler) {
  std::vector<size_t> all;
  while (const auto batch = sampler.next(3)) {
    if constexpr (std::is_same_v<Sampler, samplers::StreamSampler>)
      all.push_back(batch->size());
    else
      all.insert(all.end(), batch->begin(), batch->end());
  }
  CHECK_FALSE(sampler.next(3));  // the end stays
  return all;
}

template <class Sampler> void goes_on(Sampler sampler, Sampler other, bool reset) {
  torch::manual_seed(3);
  for (const int taken : {0, 1, 2, 9}) {
    if (reset) sampler.reset(std::nullopt);
    for (int i = 0; i < taken; ++i) sampler.next(4);
    std::stringstream stream;
    const auto state = torch::io::random_state();
    torch::save(sampler, stream);
    CHECK(torch::io::random_state() == state);
    torch::manual_seed(99);
    torch::load(other, stream);
    CHECK(torch::io::random_state().seed == 99);
    CHECK(torch::io::random_state().offset == 0);
    CHECK(rest(sampler) == rest(other));
  }
}

}  // namespace

TEST_CASE("samplers: a saved sampler goes on with the same sequence in another one") {
  for (const bool reset : {false, true}) {
    goes_on(samplers::RandomSampler(10), samplers::RandomSampler(10), reset);
    goes_on(samplers::RandomSampler(10), samplers::RandomSampler(7), reset);
    goes_on(Sequential(10), Sequential(10), reset);
    goes_on(Sequential(10), Sequential(3), reset);
    goes_on(samplers::StreamSampler(10), samplers::StreamSampler(10), reset);
    goes_on(samplers::DistributedRandomSampler(10, 3, 1),
            samplers::DistributedRandomSampler(10, 3, 1), reset);
    goes_on(samplers::DistributedSequentialSampler(10, 3, 1),
            samplers::DistributedSequentialSampler(10, 3, 1), reset);
  }
  samplers::RandomSampler grown(4), other(4);
  grown.reset(9);
  grown.next(2);
  other.load_state_dict(grown.state_dict());
  CHECK(rest(grown) == rest(other));
  samplers::RandomSampler undrawn(20), again(20);
  again.load_state_dict(undrawn.state_dict());
  CHECK(rest(undrawn) == rest(again));
}

TEST_CASE("samplers: batches of any size, and damaged states") {
  samplers::RandomSampler random(5);
  Sequential sequential(5);
  CHECK(random.next(SIZE_MAX)->size() == 5);
  CHECK_FALSE(random.next(1));
  CHECK(sequential.next(0)->empty());
  CHECK(sequential.next(SIZE_MAX)->size() == 5);
  torch::NamedValues state = random.state_dict();
  for (auto& v : state)
    if (v.name == "index") v.value = int64_t{6};
  CHECK_THROWS_AS(random.load_state_dict(state), torch::ValueError);
  CHECK_FALSE(random.next(1));
  // A loader refuses the state of one over another data set.
  auto ten = make_data_loader(numbers(10), 2), nine = make_data_loader(numbers(9), 2);
  ten->begin();
  CHECK_THROWS_AS(nine->load_state_dict(ten->state_dict()), torch::ValueError);
}
