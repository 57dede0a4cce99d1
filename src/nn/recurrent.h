// The recurrences of RNN, LSTM and GRU, over one layer in one direction.
#pragma once

#include "pellucid/nn/rnn.h"

namespace pellucid::nn::detail {

/// How many gates a recurrence has.
inline int64_t gate_count(Recurrence mode) {
  return mode == Recurrence::Lstm ? 4 : mode == Recurrence::Gru ? 3 : 1;
}

/// The input's share of the gates, W_ih x + b_ih, for all steps at once.
Tensor input_gates(const Tensor& input, const RecurrentWeights& w);
/// One step from gates [B, gates * hidden]; `h` and `c` become the next states.
void recurrent_step(Recurrence mode, const Tensor& gates, const RecurrentWeights& w, Tensor& h,
                    Tensor& c);
/// All steps of [T, B, features]; the outputs [T, B, hidden], in the order of the input.
Tensor run_layer(Recurrence mode, const Tensor& input, const RecurrentWeights& w, bool reverse,
                 Tensor& h, Tensor& c);
/// The same for packed sequences [all steps, features], of which batch_sizes[t] have a step t.
Tensor run_packed_layer(Recurrence mode, const Tensor& input, IntArrayRef batch_sizes,
                        const RecurrentWeights& w, bool reverse, Tensor& h, Tensor& c);

}  // namespace pellucid::nn::detail
