// Recurrent layers differentiate twice. Their values are compared with PyTorch by the table of
// twins (tests/parity/twins.txt).
#include "nn/waves.h"

using namespace pellucid;
using namespace pellucid::nn_tests;

TEST_CASE("nn: recurrent layers differentiate twice, in both directions") {
  const auto twice = [](auto module) {
    fill_parameters(*module);
    const auto f = [&](const autograd::variable_list& in) -> autograd::variable_list {
      return {std::get<0>(module(in[0]))};
    };
    CHECK(autograd::gradcheck(f, {leaf({3, 2, 2}, 1)}));
    CHECK(autograd::gradgradcheck(f, {leaf({3, 2, 2}, 1)}));
  };
  twice(nn::LSTM(nn::LSTMOptions(2, 3).bidirectional(true)));
  twice(nn::GRU(nn::GRUOptions(2, 3).bidirectional(true)));
  twice(nn::RNN(nn::RNNOptions(2, 3).num_layers(2)));
}
