// The recurrences of RNN, LSTM and GRU, over one layer in one direction.
#pragma once

#include <cstdint>

#include "pellucid/tensor.h"

namespace pellucid::recurrent {

enum class Recurrence : uint8_t { Tanh, Relu, Lstm, Gru };

/// The weights of one layer in one direction. Gates lie one after another along dimension 0: i, f,
/// g, o (LSTM) or r, z, n (GRU). b_ih, b_hh and the projection w_hr may be undefined.
struct RecurrentWeights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
};

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

}  // namespace pellucid::recurrent
