// Writing through expressions: rows, slices and masks of a tensor on the left of an assignment, the
// reductions that take a dim or a flag, devices, iterators and samplers. What is wrong is counted.
#include <sstream>
#include <type_traits>

#include "libtorch/libtorch.h"
#include "libtorch/programs/programs.h"

namespace programs {
namespace {

using torch::indexing::None;
using torch::indexing::Slice;

struct Count {
  void expect(bool good) { wrong += good ? 0 : 1; }
  void expect(const torch::Tensor& found, const torch::Tensor& wanted) {
    expect(found.sizes() == wanted.sizes() && torch::allclose(found, wanted.to(found.dtype())));
  }
  template <class F> void expect_error(F f) {
    try {
      f();
    } catch (const c10::Error&) { return; }
    ++wrong;
  }
  double wrong = 0;
};

void write_rows(Count& count) {
  auto x = torch::zeros({3, 4});
  const auto y = torch::arange(12.0).reshape({3, 4});
  x[0] = y[2];
  count.expect(x[0], y[2]);
  x[0][1] = y[2][3];
  count.expect(x[0][1].item<float>() == 11);
  x[1] = 2.5;
  x[2] = 7;
  count.expect(x[1], torch::full({4}, 2.5));
  count.expect(x[2], torch::full({4}, 7.0));
  x.index({Slice(None, None, 2), 3}) = torch::tensor({-1.0, -2.0});
  count.expect(x[2][3].item<float>() == -2);
  x.index({"...", 0}) = 9;
  count.expect(x.index({Slice(), 0}), torch::full({3}, 9.0));
  x.t()[2] = torch::tensor({1, 2, 3});  // of another dtype
  count.expect(x.index({Slice(), 2}), torch::tensor({1.0, 2.0, 3.0}));
  x[0] = x[1];
  x[1] = x[1];
  count.expect(x[0], x[1]);
  x[2] = torch::tensor(4.0);  // broadcast
  x[2] += 1;
  x[2] *= x[2];
  count.expect(x[2], torch::full({4}, 25.0));
  x.narrow(0, 0, 2) = torch::ones({4});
  x.select(1, 3) = 0;
  count.expect(x.sum().item<float>() == 6 + 75);
  auto z = x;  // the same tensor
  z = y;       // a variable becomes another tensor
  count.expect(x.sum().item<float>() == 6 + 75);
  std::swap(z, x);
  count.expect(x, y);
  for (auto row : x.unbind(0)) row = torch::zeros({4});
  count.expect(x, y);
  std::vector<torch::Tensor> list = {torch::zeros({2}), torch::ones({2})};
  list[0] = list[1];
  count.expect(list[0].is_same(list[1]));
  const auto half = torch::zeros({2}, torch::kLong);
  half[0] = 3.7;
  count.expect(half, torch::tensor({3, 0}));
  count.expect_error([&] { x[0] = torch::ones({3}); });
  count.expect_error([&] { x[3] = 1; });
  count.expect(x, y);
}

void write_with_gradients(Count& count) {
  const auto w = torch::tensor({1.0, 2.0, 3.0}, torch::requires_grad());
  auto x = torch::zeros({2, 3});
  x[0] = w * w;
  x[1] = 5;
  x.sum().backward();
  count.expect(w.grad(), torch::tensor({2.0, 4.0, 6.0}));
  auto y = w * 2;
  y[1] = 0;  // cuts the middle off
  y.sum().backward();
  count.expect(w.grad(), torch::tensor({4.0, 4.0, 8.0}));
  count.expect_error([&] { w[0] = 1; });  // a leaf that requires a gradient
  torch::NoGradGuard off;
  w[0] = 10;
  count.expect(w[0].item<float>() == 10);
}

void reduce(Count& count) {
  const auto x = torch::tensor({{3.0, 1.0, 2.0}, {5.0, 4.0, 9.0}});
  const auto down = torch::tensor({2.0, 4.5, 24.5}), across = torch::tensor({1.0, 7.0});
  count.expect(x.var(0), down);
  count.expect(x.var(1), across);
  count.expect(x.var({0}), down);
  count.expect(torch::var(x, 0), down);
  count.expect(x.std(0), down.sqrt());
  count.expect(torch::std(x, 1), across.sqrt());
  count.expect(std::get<0>(torch::var_mean(x, 0)), down);
  count.expect(std::get<0>(torch::std_mean(x, 1)), across.sqrt());
  count.expect(std::get<1>(torch::std_mean(x, {1})), x.mean(1));
  count.expect(x.var(true), torch::tensor(8.0));
  count.expect(x.var(false), torch::tensor(40.0 / 6));
  count.expect(x.var(0, false), down / 2);
  count.expect(x.var({0}, true, true), down.unsqueeze(0));
  count.expect(x.var(0, 0), down / 2);
  count.expect(x.argsort(false), torch::tensor({{1, 2, 0}, {1, 0, 2}}));
  count.expect(x.argsort(true, 0), torch::tensor({{0, 0, 0}, {1, 1, 1}}));
  count.expect(x.argsort(-1, true), torch::tensor({{0, 2, 1}, {2, 0, 1}}));
  count.expect(std::get<0>(x.sort(0, true)), x.flip(0));
  count.expect(x.sum(torch::kDouble).dtype() == torch::kDouble);
  count.expect(x.mean(torch::kDouble), torch::tensor(4.0));
}

void devices(Count& count) {
  const torch::Device cpu(torch::kCPU);
  count.expect(cpu == torch::kCPU);
  count.expect(!(cpu == torch::kCUDA));
  count.expect(cpu != torch::Device("cuda:1"));
  count.expect(torch::Device("cuda:1").index() == 1 && torch::Device("cuda:1").is_cuda());
  count.expect(torch::Device(torch::kCUDA, 1) == torch::Device("cuda:1"));
  count.expect(torch::zeros({1}).device() != torch::kCUDA);
  count.expect(torch::Device("cuda:1").str() == "cuda:1");
}

template <class Sampler> void resume(Count& count, Sampler first, Sampler second) {
  for (const int taken : {0, 1, 2}) {
    first.reset(10);
    second.reset(10);
    for (int i = 0; i < taken; ++i) first.next(3);
    std::stringstream stream;
    torch::save(first, stream);
    torch::load(second, stream);
    for (auto batch = first.next(4); batch; batch = first.next(4))
      count.expect(second.next(4) == batch);
    count.expect(!second.next(4).has_value());
  }
}

void containers(Count& count) {
  torch::OrderedDict<std::string, int> dict;
  count.expect_error([&] { dict.front(); });
  count.expect_error([&] { dict.back(); });
  count.expect_error([&] { dict[0]; });
  const torch::IntArrayRef none;
  count.expect_error([&] { none.front(); });
  count.expect_error([&] { none.at(0); });
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      torch::data::datasets::TensorDataset(torch::arange(4)), 3);
  auto i = loader->begin();
  count.expect(i->size() == 3);
  ++i;
  count.expect((*i).size() == 1);
  ++i;
  count.expect(i == loader->end());
  count.expect_error([&] { *i; });
  count.expect_error([&] { ++loader->end(); });
  count.expect_error([&] { *loader->end(); });
  resume(count, torch::data::samplers::RandomSampler(10), torch::data::samplers::RandomSampler(10));
  resume(count, torch::data::samplers::SequentialSampler(10),
         torch::data::samplers::SequentialSampler(10));
  resume(count, torch::data::samplers::DistributedRandomSampler(10, 2, 1),
         torch::data::samplers::DistributedRandomSampler(10, 2, 1));
  resume(count, torch::data::samplers::DistributedSequentialSampler(10, 2, 1),
         torch::data::samplers::DistributedSequentialSampler(10, 2, 1));
  torch::data::samplers::RandomSampler fresh(10), other(10);  // before the first epoch
  std::stringstream stream;
  torch::save(fresh, stream);
  torch::load(other, stream);
  count.expect(*fresh.next(10) == *other.next(10));
}

}  // namespace

Run writes() {
  Count count;
  write_rows(count);
  write_with_gradients(count);
  reduce(count);
  devices(count);
  containers(count);
  return {{}, count.wrong};
}

}  // namespace programs
