// RNNCell, LSTMCell and GRUCell: one step of the recurrences, each an op
// (src/ops/recurrent.cpp).
#include <cmath>
#include <tuple>

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/nn/init.h"
#include "pellucid/nn/rnn.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace detail {

template <class Derived>
RNNCellImplBase<Derived>::RNNCellImplBase(Recurrence mode, int64_t input_size, int64_t hidden_size,
                                          bool bias)
    : mode_(mode), input_size_(input_size), hidden_size_(hidden_size), bias_(bias) {}

template <class Derived> void RNNCellImplBase<Derived>::reset() {
  const int64_t gates = mode_ == Recurrence::Lstm ? 4 : mode_ == Recurrence::Gru ? 3 : 1;
  const int64_t rows = gates * hidden_size_;
  weight_ih = this->register_parameter("weight_ih", new_parameter({rows, input_size_}));
  weight_hh = this->register_parameter("weight_hh", new_parameter({rows, hidden_size_}));
  bias_ih = this->register_parameter("bias_ih", bias_ ? new_parameter({rows}) : Tensor(), bias_);
  bias_hh = this->register_parameter("bias_hh", bias_ ? new_parameter({rows}) : Tensor(), bias_);
  reset_parameters();
}

template <class Derived> void RNNCellImplBase<Derived>::reset_parameters() {
  const double bound = 1.0 / std::sqrt(static_cast<double>(hidden_size_));
  for (const Tensor& p : this->parameters(false)) init::uniform_(p, -bound, bound);
}

template <class Derived> std::string RNNCellImplBase<Derived>::extra_repr() const {
  std::string s = fmt::format("{}, {}", input_size_, hidden_size_);
  if (!bias_) s += ", bias=False";
  if (mode_ == Recurrence::Relu) s += ", nonlinearity=relu";
  return s;
}

template <class Derived>
void RNNCellImplBase<Derived>::step(const Tensor& input, Tensor& h, Tensor& c) const {
  PELLUCID_CHECK(input.dim() == 1 || input.dim() == 2, ShapeError,
                 "{}: the input must have 1 or 2 dimensions, but is {}.", this->name(),
                 input.sizes());
  PELLUCID_CHECK(input.size(-1) == input_size_, ShapeError,
                 "{}: the input has {} features but input_size is {} (input {}).", this->name(),
                 input.size(-1), input_size_, input.sizes());
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = hidden_size_;
  for (Tensor* state : {&h, &c}) {
    if (!state->defined()) *state = zeros(sizes, input.dtype());
    PELLUCID_CHECK(state->sizes() == IntArrayRef(sizes), ShapeError,
                   "{}: the state must be {}, but is {}.", this->name(), IntArrayRef(sizes),
                   state->sizes());
  }
  switch (mode_) {
    case Recurrence::Tanh:
      h = rnn_tanh_cell(input, h, weight_ih, weight_hh, bias_ih, bias_hh);
      return;
    case Recurrence::Relu:
      h = rnn_relu_cell(input, h, weight_ih, weight_hh, bias_ih, bias_hh);
      return;
    case Recurrence::Gru:
      h = gru_cell(input, h, weight_ih, weight_hh, bias_ih, bias_hh);
      return;
    case Recurrence::Lstm:
      std::tie(h, c) = lstm_cell(input, {h, c}, weight_ih, weight_hh, bias_ih, bias_hh);
      return;
  }
}

}  // namespace detail

RNNCellImpl::RNNCellImpl(const RNNCellOptions& o)
    : RNNCellImplBase(
          o.nonlinearity().index() == 0 ? detail::Recurrence::Tanh : detail::Recurrence::Relu,
          o.input_size(), o.hidden_size(), o.bias()),
      options(o) {
  reset();
}

Tensor RNNCellImpl::forward(const Tensor& input, const Tensor& hx) {
  const ModuleScope scope(*this);
  Tensor h = hx, unused;
  step(input, h, unused);
  return h;
}

LSTMCellImpl::LSTMCellImpl(const LSTMCellOptions& o)
    : RNNCellImplBase(detail::Recurrence::Lstm, o.input_size(), o.hidden_size(), o.bias()),
      options(o) {
  reset();
}

std::tuple<Tensor, Tensor> LSTMCellImpl::forward(const Tensor& input,
                                                 std::optional<std::tuple<Tensor, Tensor>> hx) {
  const ModuleScope scope(*this);
  auto [h, c] = hx.value_or(std::tuple<Tensor, Tensor>());
  step(input, h, c);
  return {h, c};
}

GRUCellImpl::GRUCellImpl(const GRUCellOptions& o)
    : RNNCellImplBase(detail::Recurrence::Gru, o.input_size(), o.hidden_size(), o.bias()),
      options(o) {
  reset();
}

Tensor GRUCellImpl::forward(const Tensor& input, const Tensor& hx) {
  const ModuleScope scope(*this);
  Tensor h = hx, unused;
  step(input, h, unused);
  return h;
}

template class detail::RNNCellImplBase<RNNCellImpl>;
template class detail::RNNCellImplBase<LSTMCellImpl>;
template class detail::RNNCellImplBase<GRUCellImpl>;

}  // namespace pellucid::nn
