// RNN, LSTM, GRU and their cells. The input is [T, B, features], [B, T, features] with batch_first,
// or [T, features] for one sequence.
#pragma once

#include <tuple>
#include <vector>

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/options/rnn.h"
#include "pellucid/nn/packed_sequence.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

namespace detail {

enum class Recurrence : uint8_t { Tanh, Relu, Lstm, Gru };

/// A recurrent stack's sizes.
struct RecurrentOptions {
  Recurrence mode = Recurrence::Tanh;
  int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  int64_t proj_size = 0;
};

/// What RNN, LSTM and GRU share.
template <class Derived> class PELLUCID_API RNNImplBase : public Cloneable<Derived> {
 public:
  explicit RNNImplBase(const RecurrentOptions& o);
  void reset() override;
  void reset_parameters();
  std::string extra_repr() const override;
  /// Nothing to do here: weights are kept as they are.
  void flatten_parameters() {}
  std::vector<Tensor> all_weights() const { return this->parameters(false); }
  RecurrentOptions options_base;

 protected:
  struct Result {
    Tensor output, h, c;
  };
  Result run(const Tensor& input, Tensor h, Tensor c);
  /// The output's rows are those of the packed input.
  Result run(const utils::rnn::PackedSequence& input, Tensor h, Tensor c);

 private:
  /// All layers and directions, by the op of the mode; batch_sizes are those of packed sequences,
  /// else empty.
  Result stacked(const Tensor& x, const Tensor& h, const Tensor& c, IntArrayRef batch_sizes);
  void check_features(const Tensor& input) const;
  std::vector<Tensor> weights_;  ///< layer by layer, forward before reverse
};

}  // namespace detail

/// h = tanh(W_ih x + b_ih + W_hh h + b_hh), or with ReLU.
class PELLUCID_API RNNImpl : public detail::RNNImplBase<RNNImpl> {
 public:
  RNNImpl(int64_t input_size, int64_t hidden_size) : RNNImpl(RNNOptions(input_size, hidden_size)) {}
  explicit RNNImpl(const RNNOptions& options);
  /// The outputs at every step, and the last hidden states [layers * directions, B, hidden].
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
  /// The same for sequences of several lengths.
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, Tensor hx = {});
  RNNOptions options;
};
using RNN = ModuleHolder<RNNImpl>;

class PELLUCID_API LSTMImpl : public detail::RNNImplBase<LSTMImpl> {
 public:
  LSTMImpl(int64_t input_size, int64_t hidden_size)
      : LSTMImpl(LSTMOptions(input_size, hidden_size)) {}
  explicit LSTMImpl(const LSTMOptions& options);
  std::tuple<Tensor, std::tuple<Tensor, Tensor>> forward(
      const Tensor& input, std::optional<std::tuple<Tensor, Tensor>> hx = {});
  std::tuple<utils::rnn::PackedSequence, std::tuple<Tensor, Tensor>> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input,
      std::optional<std::tuple<Tensor, Tensor>> hx = {});
  LSTMOptions options;
};
using LSTM = ModuleHolder<LSTMImpl>;

class PELLUCID_API GRUImpl : public detail::RNNImplBase<GRUImpl> {
 public:
  GRUImpl(int64_t input_size, int64_t hidden_size) : GRUImpl(GRUOptions(input_size, hidden_size)) {}
  explicit GRUImpl(const GRUOptions& options);
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, Tensor hx = {});
  GRUOptions options;
};
using GRU = ModuleHolder<GRUImpl>;

namespace detail {
/// The four tensors of a cell.
template <class Derived> class PELLUCID_API RNNCellImplBase : public Cloneable<Derived> {
 public:
  RNNCellImplBase(Recurrence mode, int64_t input_size, int64_t hidden_size, bool bias);
  void reset() override;
  void reset_parameters();
  std::string extra_repr() const override;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  /// One step from [B, features] (or [features]); `h` and `c` become the next states.
  void step(const Tensor& input, Tensor& h, Tensor& c) const;
  Recurrence mode_;
  int64_t input_size_, hidden_size_;
  bool bias_;
};
}  // namespace detail

class PELLUCID_API RNNCellImpl : public detail::RNNCellImplBase<RNNCellImpl> {
 public:
  RNNCellImpl(int64_t input_size, int64_t hidden_size)
      : RNNCellImpl(RNNCellOptions(input_size, hidden_size)) {}
  explicit RNNCellImpl(const RNNCellOptions& options);
  Tensor forward(const Tensor& input, const Tensor& hx = {});
  RNNCellOptions options;
};
using RNNCell = ModuleHolder<RNNCellImpl>;

class PELLUCID_API LSTMCellImpl : public detail::RNNCellImplBase<LSTMCellImpl> {
 public:
  LSTMCellImpl(int64_t input_size, int64_t hidden_size)
      : LSTMCellImpl(LSTMCellOptions(input_size, hidden_size)) {}
  explicit LSTMCellImpl(const LSTMCellOptions& options);
  std::tuple<Tensor, Tensor> forward(const Tensor& input,
                                     std::optional<std::tuple<Tensor, Tensor>> hx = {});
  LSTMCellOptions options;
};
using LSTMCell = ModuleHolder<LSTMCellImpl>;

class PELLUCID_API GRUCellImpl : public detail::RNNCellImplBase<GRUCellImpl> {
 public:
  GRUCellImpl(int64_t input_size, int64_t hidden_size)
      : GRUCellImpl(GRUCellOptions(input_size, hidden_size)) {}
  explicit GRUCellImpl(const GRUCellOptions& options);
  Tensor forward(const Tensor& input, const Tensor& hx = {});
  GRUCellOptions options;
};
using GRUCell = ModuleHolder<GRUCellImpl>;

extern template class detail::RNNImplBase<RNNImpl>;
extern template class detail::RNNImplBase<LSTMImpl>;
extern template class detail::RNNImplBase<GRUImpl>;
extern template class detail::RNNCellImplBase<RNNCellImpl>;
extern template class detail::RNNCellImplBase<LSTMCellImpl>;
extern template class detail::RNNCellImplBase<GRUCellImpl>;

}  // namespace pellucid::nn
