// Which overload a call chooses where C++'s conversions would choose another than the call means,
// and the hand-written functions and options. What is generated is swept by overload_sweep.cpp.
#include <doctest/doctest.h>

#include "pellucid/torch.h"

namespace {

using torch::Tensor;

Tensor rows() { return torch::tensor({{3., 1., 2.}, {5., 4., 9.}}, torch::kDouble); }
bool near(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && torch::allclose(a, b.to(a.dtype()));
}

// Whether f(x) compiles.
template <class F> constexpr bool compiles(F) { return std::is_invocable_v<F, Tensor&>; }
#define COMPILES(...) \
  compiles([](auto& x) -> decltype((void)x, (void)(__VA_ARGS__)) { static_cast<void>(x); })

}  // namespace

TEST_CASE("overloads: a number is a dim or a correction, a bool is a flag") {
  const Tensor x = rows(), down = torch::tensor({2., 4.5, 24.5}), across = torch::tensor({1., 7.});
  CHECK(near(x.var(0), down));
  CHECK(near(x.var(int64_t{1}), across));
  CHECK(near(x.var(size_t{1}), across));
  CHECK(near(x.var({0}), down));
  CHECK(near(x.var({-1}), across));
  CHECK(near(x.var(std::vector<int64_t>{0}), down));
  CHECK(near(x.var({0, 1}), torch::tensor(8.0)));
  CHECK(near(x.var(true), torch::tensor(8.0)));
  CHECK(near(x.var(false), torch::tensor(40. / 6)));
  CHECK(near(x.var(), torch::tensor(8.0)));
  CHECK(near(x.var(0, false), down / 2));
  CHECK(near(x.var(0, 0), down / 2));
  CHECK(near(x.var(1, 2), across * 2));       // libtorch takes 2 for true
  CHECK(near(x.var(1, 0.5), across / 1.25));  // and 0.5
  CHECK(near(x.var(0, true, true), down.unsqueeze(0)));
  CHECK(near(x.var(0, std::nullopt, true), down.unsqueeze(0)));
  CHECK(near(x.var(std::nullopt, false), torch::tensor(40. / 6)));
  for (const auto& [a, b] : {std::pair(x.std(0), down),
                             {torch::std(x, 0), down},
                             {torch::std(x, {1}), across},
                             {std::get<0>(x.std_mean(0)), down},
                             {std::get<0>(torch::std_mean(x, 1)), across}})
    CHECK(near(a.square(), b));
  CHECK(near(std::get<0>(torch::var_mean(x, 0)), down));
  CHECK(near(std::get<0>(x.var_mean({1})), across));
  CHECK(near(std::get<0>(torch::var_mean(x, false)), torch::tensor(40. / 6)));
  CHECK(near(torch::var(x, 1, 2), across * 2));
}

TEST_CASE("overloads: sort and argsort by a dim or by stability") {
  const Tensor x = rows();
  const Tensor last = torch::tensor({{1, 2, 0}, {1, 0, 2}}),
               first = torch::tensor({{0, 0, 0}, {1, 1, 1}});
  CHECK(near(x.argsort(false), last));
  CHECK(near(x.argsort(true), last));
  CHECK(near(x.argsort(0), first));
  CHECK(near(x.argsort(size_t{0}), first));
  CHECK(near(x.argsort(0, true), first.flip(0)));
  CHECK(near(x.argsort(true, 0), first));
  CHECK(near(x.argsort(std::nullopt, 0), first));
  CHECK(near(std::get<1>(x.sort(false)), last));  // libtorch: along dim 0
  CHECK(near(std::get<1>(x.sort(true, 0)), first));
  CHECK(near(std::get<1>(torch::sort(x, 0)), first));
  CHECK(near(std::get<1>(torch::sort(x, true, 0, true)), first.flip(0)));
  CHECK_FALSE(COMPILES(x.sort(true, true)));
  CHECK_FALSE(COMPILES(x.argsort(1.5)));
  CHECK_FALSE(COMPILES(x.sort("stable")));
}

TEST_CASE("overloads: braces are a list, where a list of one means something else") {
  const Tensor x = rows();
  CHECK(x.split({1, 2}, 1).size() == 2);
  CHECK(x.split(1).size() == 2);
  CHECK(x.tensor_split(2, 1)[0].size(1) == 2);
  CHECK(x.tensor_split(std::vector<int64_t>{1}, 1)[0].size(1) == 1);
  CHECK(x.unsqueeze(0).squeeze({0}).dim() == 2);
  CHECK(x.movedim({0}, {1}).size(0) == 3);
  CHECK(near(x.sum({}), x.sum()));  // no dims are all dims, and {} is no dtype
  CHECK(x.sum({}).dtype() == torch::kDouble);
  CHECK_FALSE(COMPILES(x.split({1})));
  CHECK_FALSE(COMPILES(x.tensor_split({1})));
  CHECK_FALSE(COMPILES(x.hsplit({1})));
  CHECK_FALSE(COMPILES(torch::vsplit(x, {1})));
}

TEST_CASE("overloads: what is no dim, no number and no flag does not compile") {
  CHECK(COMPILES(x.sum(1)));
  CHECK(COMPILES(x.sum(1, 1)));
  CHECK_FALSE(COMPILES(x.sum(1.5)));
  CHECK_FALSE(COMPILES(x.sum(true)));
  CHECK_FALSE(COMPILES(x.sum(1, "keep")));
  CHECK_FALSE(COMPILES(x.sum(1, 0.5)));
  CHECK_FALSE(COMPILES(x.argmax(true)));
  CHECK_FALSE(COMPILES(x.transpose(0.5, 1)));
  CHECK_FALSE(COMPILES(x.max(true)));
  CHECK_FALSE(COMPILES(x.topk(2, true)));
  CHECK_FALSE(COMPILES(torch::dropout(x, true, 0.5)));
  CHECK_FALSE(COMPILES(torch::allclose(x, x, true)));
  CHECK_FALSE(COMPILES(x.allclose(x, 0.1, true)));
  CHECK_FALSE(COMPILES(x.size(0.5)));
  CHECK_FALSE(COMPILES(x.reshape(6.5)));
  CHECK_FALSE(COMPILES(x.div(2, nullptr)));
  CHECK_FALSE(COMPILES(x[1.5]));
  CHECK(COMPILES(x[size_t{1}]));
  CHECK(COMPILES(x[torch::Scalar(1)]));
  CHECK_THROWS_AS(rows()[torch::Scalar(0.5)], torch::IndexError);
  CHECK(near(rows().index({size_t{1}, uint8_t{2}}), torch::tensor(9.0)));
  CHECK_FALSE(COMPILES(x.index({1.5})));
  CHECK_FALSE(COMPILES(x.index({nullptr})));
  CHECK_FALSE(COMPILES(x.to(0)));
  CHECK_FALSE(COMPILES(x.to(nullptr)));
  CHECK(COMPILES(x.to("cpu")));
  enum Axis { kRows, kColumns };
  CHECK(near(rows().sum(kColumns), torch::tensor({6., 18.})));
  CHECK(near(rows().transpose(kRows, kColumns), rows().t()));
  CHECK(near(rows().mean(torch::kFloat), torch::tensor(4.f)));
}

TEST_CASE("overloads: options refuse what C++ would convert") {
  namespace nn = torch::nn;
  CHECK_FALSE(COMPILES(torch::optim::SGDOptions(0.1).nesterov(x.template item<double>())));
  CHECK(COMPILES(torch::optim::SGDOptions(0.1).nesterov(x.is_cpu())));
  CHECK_FALSE(COMPILES(torch::optim::SGDOptions(x.is_cpu())));
  CHECK_FALSE(COMPILES(torch::optim::AdamOptions(0.1).eps(x.is_cpu())));
  CHECK_FALSE(COMPILES(nn::LinearOptions(2, 3).bias(x.toString().c_str())));
  CHECK_FALSE(COMPILES(nn::LSTMOptions(2, 3).num_layers(x.template item<double>())));
  CHECK_FALSE(COMPILES(nn::ReLUOptions(x.template item<double>())));
  CHECK_FALSE(COMPILES(nn::DropoutOptions(x.is_cpu())));
  CHECK_FALSE(COMPILES(nn::SoftmaxOptions(x.is_cpu())));
  CHECK_FALSE(COMPILES(nn::Conv2dOptions(1, 2, x.template item<double>())));
  CHECK(COMPILES(nn::Conv2dOptions(1, 2, x.dim())));
  CHECK(COMPILES(nn::SoftmaxOptions(x.dim())));
  CHECK_FALSE(COMPILES(torch::data::DataLoaderOptions(x.is_cpu())));
  CHECK_FALSE(COMPILES(torch::data::DataLoaderOptions(x.template item<double>())));
  CHECK(COMPILES(torch::data::DataLoaderOptions(x.dim())));
  CHECK_THROWS_AS(torch::data::DataLoaderOptions(-1), torch::ValueError);
  CHECK_THROWS_AS(torch::data::DataLoaderOptions(0), torch::ValueError);
  const auto load = [](torch::data::DataLoaderOptions options) {
    torch::data::make_data_loader(torch::data::datasets::TensorDataset(torch::ones({2})), options);
  };
  CHECK_THROWS_AS(load(torch::data::DataLoaderOptions().batch_size(-1)), torch::ValueError);
  CHECK_THROWS_AS(load(torch::data::DataLoaderOptions().batch_size(0)), torch::ValueError);
}
