// Recurrent layers, attention and transformers against PyTorch 2.13: outputs and gradients.
#include "nn/same.h"

using namespace pellucid;
using namespace pellucid::nn_tests;

TEST_CASE("nn values: rnn") {
  same(nn::RNN(3, 4), 0.8943848395593, -2.113877728801, leaf({5, 2, 3}, 10));
  same(
      nn::RNN(nn::RNNOptions(3, 4).num_layers(2).nonlinearity(kReLU).bias(false).batch_first(true)),
      1.07330848805, -5.879109256715, leaf({2, 5, 3}, 10));
  same(nn::LSTM(3, 4), -0.1616011820795, 0.6146279277012, leaf({5, 2, 3}, 10));
  same(nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true)),
       -0.4332838781178, 0.5244040825108, leaf({2, 5, 3}, 10));
  same(nn::LSTM(nn::LSTMOptions(3, 4).proj_size(2)), -0.4268646772652, 0.8434817298474,
       leaf({5, 2, 3}, 10));
  same(nn::GRU(3, 4), 0.3066407382354, 0.1377426505322, leaf({5, 2, 3}, 10));
  same(nn::GRU(nn::GRUOptions(3, 4).num_layers(2).bidirectional(true)), -0.0760800542791,
       -1.603034277496, leaf({5, 2, 3}, 10));
  same(nn::GRU(3, 4), 0.8409451972596, -1.262180065962, leaf({5, 3}, 10));
  same(nn::RNN(3, 4), 0.7619418220957, 1.414911505987, leaf({5, 2, 3}, 10), leaf({1, 2, 4}, 11));
  same(nn::GRUCell(3, 4), -1.295353303499, -0.6936930692663, leaf({2, 3}, 10), leaf({2, 4}, 11));
  same(nn::RNNCell(3, 4), 0.3229525075126, -0.3444087242177, leaf({2, 3}, 10));
  same(nn::LSTMCell(3, 4), -0.5928159871514, 1.358632583568, leaf({2, 3}, 10));
}

TEST_CASE("nn values: attention") {
  const Tensor padding = tensor({{false, false, true}, {false, false, false}});
  const Tensor future = ones({3, 3}, kBool).triu(1);
  same(nn::MultiheadAttention(8, 2), -45.41098474154, 122.5330074349, leaf({3, 2, 8}, 10),
       leaf({5, 2, 8}, 11), leaf({5, 2, 8}, 12));
  same(nn::MultiheadAttention(
           nn::MultiheadAttentionOptions(8, 2).bias(false).kdim(3).vdim(5).batch_first(true)),
       -1.001076467596, -0.4519045055843, leaf({2, 3, 8}, 10), leaf({2, 4, 3}, 11),
       leaf({2, 4, 5}, 12));
  same(nn::MultiheadAttention(
           nn::MultiheadAttentionOptions(8, 2).add_bias_kv(true).add_zero_attn(true)),
       -26.43006945217, -248.638465277, leaf({3, 2, 8}, 10), leaf({5, 2, 8}, 11),
       leaf({5, 2, 8}, 12));
  same(nn::MultiheadAttention(8, 2), -27.8701100521, 169.5195629987, leaf({3, 2, 8}, 10),
       leaf({3, 2, 8}, 11), leaf({3, 2, 8}, 12), padding, false, future);
  same(nn::MultiheadAttention(8, 2), -26.5385954118, 169.6269808935, leaf({3, 2, 8}, 10),
       leaf({3, 2, 8}, 11), leaf({3, 2, 8}, 12), padding, true, future);
  same(nn::TransformerEncoderLayer(
           nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0)),
       7.222795271646, -12.3457377822, leaf({3, 2, 8}, 10));
  same(nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2)
                                       .dim_feedforward(16)
                                       .dropout(0)
                                       .norm_first(true)
                                       .batch_first(true)
                                       .activation(kGELU)),
       -28.25008937463, 45.35622714666, leaf({2, 3, 8}, 10));
  same(nn::TransformerEncoder(
           nn::TransformerEncoderOptions(
               nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0), 2)
               .norm(nn::AnyModule(nn::LayerNorm(std::vector<int64_t>{8})))),
       4.183413635381, -3.969064260556, leaf({3, 2, 8}, 10), future, padding);
  same(nn::TransformerDecoderLayer(
           nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0)),
       3.098325564344, -3.953647442121, leaf({3, 2, 8}, 10), leaf({4, 2, 8}, 11));
  same(nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(16).dropout(0)),
       -2.193613266357, 1.95391905789, leaf({3, 2, 8}, 10), leaf({4, 2, 8}, 11));
}

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
