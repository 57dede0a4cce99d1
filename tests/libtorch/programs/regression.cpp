// Polynomial regression with one linear layer: y = w1 x + w2 x^2 + w3 x^3 + w4 x^4 + b.
#include <cmath>
#include <sstream>
#include <tuple>

#include "../libtorch.h"
#include "programs.h"

namespace programs::regression_program {

constexpr int64_t kDegree = 4;

/// The columns x, x^2, x^3, x^4.
torch::Tensor powers(torch::Tensor x) {
  x = x.unsqueeze(1);
  std::vector<torch::Tensor> columns;
  for (int64_t i = 1; i <= kDegree; ++i) columns.push_back(x.pow(i));
  return torch::cat(columns, /*dim=*/1);
}

torch::Tensor target_function(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  return x.mm(w) + b.item();
}

std::string describe(torch::Tensor w, torch::Tensor b) {
  const auto size = w.size(0);
  std::ostringstream stream;
  stream << "y = ";
  for (int64_t i = 0; i < size; ++i) stream << w[i].item<float>() << " x^" << size - i << " ";
  stream << "+ " << b[0].item<float>();
  return stream.str();
}

std::pair<torch::Tensor, torch::Tensor> next_batch(torch::Tensor w, torch::Tensor b,
                                                   int64_t batch_size = 32) {
  auto x = powers(torch::randn({batch_size}));
  auto y = target_function(x, w, b);
  return std::make_pair(x, y);
}

}  // namespace programs::regression_program

programs::Run programs::regression() {
  using namespace regression_program;
  torch::manual_seed(0);
  auto w_target = torch::randn({kDegree, 1}) * 5;
  auto b_target = torch::randn({1}) * 5;

  torch::nn::Linear fc(w_target.size(0), 1);
  torch::optim::SGD optimizer(fc->parameters(), /*lr=*/0.1);

  Run run;
  double loss = 0;
  size_t batch_idx = 0;
  while (++batch_idx) {
    torch::Tensor x, y;
    std::tie(x, y) = next_batch(w_target, b_target);
    optimizer.zero_grad();
    auto output = torch::smooth_l1_loss(fc(x), y);
    loss = output.item<double>();
    output.backward();
    optimizer.step();
    run.losses.push_back(loss);
    if (loss < 1e-3 || batch_idx == 4000) break;
  }
  TORCH_CHECK(describe(fc->weight.view({-1}), fc->bias).substr(0, 4) == "y = ");
  const auto error = torch::max((fc->weight.view({-1}) - w_target.view({-1})).abs().max(),
                                (fc->bias - b_target).abs().max());
  run.result = error.item<double>();
  return run;
}
