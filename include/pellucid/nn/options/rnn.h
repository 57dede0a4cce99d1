// Options of recurrent layers and cells.
#pragma once

#include "pellucid/nn/arg.h"

namespace pellucid::nn {

namespace detail {
using rnn_nonlinearity_t = std::variant<enumtype::kTanh, enumtype::kReLU>;
}

struct RNNOptions {
  using nonlinearity_t = detail::rnn_nonlinearity_t;
  RNNOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  PELLUCID_ARG(int64_t, input_size);
  PELLUCID_ARG(int64_t, hidden_size);
  PELLUCID_ARG(int64_t, num_layers) = 1;
  PELLUCID_ARG(nonlinearity_t, nonlinearity) = kTanh;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(bool, batch_first) = false;
  PELLUCID_ARG(double, dropout) = 0.0;
  PELLUCID_ARG(bool, bidirectional) = false;
};
struct LSTMOptions {
  LSTMOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  PELLUCID_ARG(int64_t, input_size);
  PELLUCID_ARG(int64_t, hidden_size);
  PELLUCID_ARG(int64_t, num_layers) = 1;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(bool, batch_first) = false;
  PELLUCID_ARG(double, dropout) = 0.0;
  PELLUCID_ARG(bool, bidirectional) = false;
  /// The size that hidden states are projected to; 0 for none.
  PELLUCID_ARG(int64_t, proj_size) = 0;
};
struct GRUOptions {
  GRUOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  PELLUCID_ARG(int64_t, input_size);
  PELLUCID_ARG(int64_t, hidden_size);
  PELLUCID_ARG(int64_t, num_layers) = 1;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(bool, batch_first) = false;
  PELLUCID_ARG(double, dropout) = 0.0;
  PELLUCID_ARG(bool, bidirectional) = false;
};
struct RNNCellOptions {
  using nonlinearity_t = detail::rnn_nonlinearity_t;
  RNNCellOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  PELLUCID_ARG(int64_t, input_size);
  PELLUCID_ARG(int64_t, hidden_size);
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(nonlinearity_t, nonlinearity) = kTanh;
};
struct LSTMCellOptions {
  LSTMCellOptions(int64_t input_size, int64_t hidden_size)
      : input_size_(input_size), hidden_size_(hidden_size) {}
  PELLUCID_ARG(int64_t, input_size);
  PELLUCID_ARG(int64_t, hidden_size);
  PELLUCID_ARG(bool, bias) = true;
};
using GRUCellOptions = LSTMCellOptions;

}  // namespace pellucid::nn
