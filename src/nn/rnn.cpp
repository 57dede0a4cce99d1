// RNN, LSTM and GRU as modules: their parameters, start states, and the checks of what comes in.
// The layers are ops (src/ops/recurrent.cpp).
#include "pellucid/nn/rnn.h"

#include <cmath>

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace detail {

namespace {

/// How many gates a recurrence has.
int64_t gate_count(Recurrence mode) {
  return mode == Recurrence::Lstm ? 4 : mode == Recurrence::Gru ? 3 : 1;
}

}  // namespace

template <class Derived>
RNNImplBase<Derived>::RNNImplBase(const RecurrentOptions& o) : options_base(o) {}

template <class Derived> void RNNImplBase<Derived>::reset() {
  const RecurrentOptions& o = options_base;
  PELLUCID_CHECK(o.input_size > 0 && o.hidden_size > 0 && o.num_layers > 0, ValueError,
                 "{}: input_size, hidden_size and num_layers must be positive, but are {}, {}, {}.",
                 this->name(), o.input_size, o.hidden_size, o.num_layers);
  PELLUCID_CHECK(o.dropout >= 0 && o.dropout <= 1, ValueError,
                 "{}: dropout must be between 0 and 1, but is {}.", this->name(), o.dropout);
  PELLUCID_CHECK(o.proj_size >= 0 && o.proj_size < o.hidden_size, ValueError,
                 "{}: proj_size must be at least 0 and less than hidden_size {}, but is {}.",
                 this->name(), o.hidden_size, o.proj_size);
  const int64_t directions = o.bidirectional ? 2 : 1;
  const int64_t out = o.proj_size ? o.proj_size : o.hidden_size;
  const int64_t rows = gate_count(o.mode) * o.hidden_size;
  weights_.clear();
  for (int64_t layer = 0; layer < o.num_layers; ++layer)
    for (int64_t d = 0; d < directions; ++d) {
      const std::string suffix = fmt::format("_l{}{}", layer, d ? "_reverse" : "");
      const auto add = [&](const char* name, IntArrayRef sizes) {
        weights_.push_back(this->register_parameter(name + suffix, new_parameter(sizes)));
      };
      add("weight_ih", {rows, layer == 0 ? o.input_size : out * directions});
      add("weight_hh", {rows, out});
      if (o.bias) add("bias_ih", {rows});
      if (o.bias) add("bias_hh", {rows});
      if (o.proj_size) add("weight_hr", {o.proj_size, o.hidden_size});
    }
  reset_parameters();
}

template <class Derived> void RNNImplBase<Derived>::reset_parameters() {
  const double bound = 1.0 / std::sqrt(static_cast<double>(options_base.hidden_size));
  for (const Tensor& p : this->parameters(false)) init::uniform_(p, -bound, bound);
}

template <class Derived> std::string RNNImplBase<Derived>::extra_repr() const {
  const RecurrentOptions& o = options_base;
  std::string s = fmt::format("{}, {}", o.input_size, o.hidden_size);
  if (o.proj_size) s += fmt::format(", proj_size={}", o.proj_size);
  if (o.num_layers != 1) s += fmt::format(", num_layers={}", o.num_layers);
  if (!o.bias) s += ", bias=False";
  if (o.batch_first) s += ", batch_first=True";
  if (o.dropout != 0) s += ", dropout=" + repr::text(o.dropout);
  if (o.bidirectional) s += ", bidirectional=True";
  return s;
}

namespace {

/// The given start state (of the cells, or the outputs) as [layers * directions, B, size], or
/// zeros.
Tensor start_state(const Module& m, const RecurrentOptions& o, bool cell, const Tensor& given,
                   int64_t batch, bool batched, DType dtype) {
  const int64_t layers = o.num_layers * (o.bidirectional ? 2 : 1);
  const int64_t size = o.proj_size && !cell ? o.proj_size : o.hidden_size;
  if (!given.defined()) return zeros({layers, batch, size}, dtype);
  const Tensor h = batched ? given : given.unsqueeze(1);
  PELLUCID_CHECK(h.sizes() == IntArrayRef({layers, batch, size}), ShapeError,
                 "{}: a state must be [{}, {}, {}] (without the batch for one sequence), but is "
                 "{}.",
                 m.name(), layers, batch, size, given.sizes());
  return h;
}

}  // namespace

template <class Derived> void RNNImplBase<Derived>::check_features(const Tensor& input) const {
  PELLUCID_CHECK(input.size(-1) == options_base.input_size, ShapeError,
                 "{}: the input has {} features but input_size is {} (input {}).", this->name(),
                 input.size(-1), options_base.input_size, input.sizes());
}

template <class Derived>
typename RNNImplBase<Derived>::Result RNNImplBase<Derived>::stacked(const Tensor& x,
                                                                    const Tensor& h,
                                                                    const Tensor& c,
                                                                    IntArrayRef batch_sizes) {
  const RecurrentOptions& o = options_base;
  const bool packed = !batch_sizes.empty();
  const auto run_by = [&](const auto& op, const auto&... states) {
    return op(x, states..., weights_, o.bias, o.num_layers, o.dropout, this->is_training(),
              o.bidirectional, o.batch_first && !packed,
              packed ? OptionalIntArrayRef(batch_sizes) : OptionalIntArrayRef(std::nullopt));
  };
  if (o.mode == Recurrence::Lstm) {
    auto [output, last_h, last_c] = run_by(lstm, h, c);
    return {output, last_h, last_c};
  }
  auto [output, last] = run_by(o.mode == Recurrence::Gru    ? gru
                               : o.mode == Recurrence::Tanh ? rnn_tanh
                                                            : rnn_relu,
                               h);
  return {output, last, {}};
}

template <class Derived>
typename RNNImplBase<Derived>::Result RNNImplBase<Derived>::run(const Tensor& input, Tensor h,
                                                                Tensor c) {
  const RecurrentOptions& o = options_base;
  PELLUCID_CHECK(input.dim() == 2 || input.dim() == 3, ShapeError,
                 "{}: the input must have 2 or 3 dimensions, but is {}.", this->name(),
                 input.sizes());
  check_features(input);
  const bool batched = input.dim() == 3;
  const int64_t at = o.batch_first ? 0 : 1;  // where the batch is
  const Tensor x = batched ? input : input.unsqueeze(at);
  PELLUCID_CHECK(x.size(1 - at) > 0, ShapeError, "{}: the sequence is empty (input {}).",
                 this->name(), input.sizes());
  const bool has_cells = o.mode == Recurrence::Lstm;
  h = start_state(*this, o, false, h, x.size(at), batched, x.dtype());
  if (has_cells) c = start_state(*this, o, true, c, x.size(at), batched, x.dtype());
  Result r = stacked(x, h, c, {});
  if (!batched) {
    r.output = r.output.squeeze(at);
    r.h = r.h.squeeze(1);
    if (has_cells) r.c = r.c.squeeze(1);
  }
  return r;
}

template <class Derived>
typename RNNImplBase<Derived>::Result RNNImplBase<Derived>::run(
    const utils::rnn::PackedSequence& input, Tensor h, Tensor c) {
  const RecurrentOptions& o = options_base;
  PELLUCID_CHECK(input.data().dim() == 2, ShapeError,
                 "{}: packed sequences must be [steps, features], but their data is {}.",
                 this->name(), input.data().sizes());
  check_features(input.data());
  const Tensor sizes = input.batch_sizes().contiguous();
  const IntArrayRef batch_sizes(sizes.const_data_ptr<int64_t>(),
                                static_cast<size_t>(sizes.numel()));
  const bool has_cells = o.mode == Recurrence::Lstm;
  // States are given and returned in the order of the batch, and run in the packed order.
  const auto start = [&](const Tensor& given, bool cell) {
    const Tensor s = start_state(*this, o, cell, given, batch_sizes[0], true, input.data().dtype());
    return input.sorted_indices().defined() ? s.index_select(1, input.sorted_indices()) : s;
  };
  h = start(h, false);
  if (has_cells) c = start(c, true);
  Result r = stacked(input.data(), h, c, batch_sizes);
  if (const Tensor& back = input.unsorted_indices(); back.defined()) {
    r.h = r.h.index_select(1, back);
    if (has_cells) r.c = r.c.index_select(1, back);
  }
  return r;
}

}  // namespace detail

namespace {
template <class Options>
detail::RecurrentOptions base_options(detail::Recurrence mode, const Options& o) {
  return {mode,     o.input_size(),  o.hidden_size(), o.num_layers(),
          o.bias(), o.batch_first(), o.dropout(),     o.bidirectional()};
}
detail::Recurrence mode_of(const detail::rnn_nonlinearity_t& n) {
  return n.index() == 0 ? detail::Recurrence::Tanh : detail::Recurrence::Relu;
}
}  // namespace

RNNImpl::RNNImpl(const RNNOptions& o)
    : RNNImplBase(base_options(mode_of(o.nonlinearity()), o)), options(o) {
  reset();
}

std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& input, Tensor hx) {
  const ModuleScope scope(*this);
  Result r = run(input, std::move(hx), {});
  return {std::move(r.output), std::move(r.h)};
}

std::tuple<utils::rnn::PackedSequence, Tensor> RNNImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& packed_input, Tensor hx) {
  const ModuleScope scope(*this);
  Result r = run(packed_input, std::move(hx), {});
  return {packed_input.with_data(std::move(r.output)), std::move(r.h)};
}

LSTMImpl::LSTMImpl(const LSTMOptions& o)
    : RNNImplBase(base_options(detail::Recurrence::Lstm, o)), options(o) {
  options_base.proj_size = o.proj_size();
  reset();
}

std::tuple<Tensor, std::tuple<Tensor, Tensor>> LSTMImpl::forward(
    const Tensor& input, std::optional<std::tuple<Tensor, Tensor>> hx) {
  const ModuleScope scope(*this);
  auto [h, c] = hx.value_or(std::tuple<Tensor, Tensor>());
  Result r = run(input, std::move(h), std::move(c));
  return {std::move(r.output), {std::move(r.h), std::move(r.c)}};
}

std::tuple<utils::rnn::PackedSequence, std::tuple<Tensor, Tensor>>
LSTMImpl::forward_with_packed_input(const utils::rnn::PackedSequence& packed_input,
                                    std::optional<std::tuple<Tensor, Tensor>> hx) {
  const ModuleScope scope(*this);
  auto [h, c] = hx.value_or(std::tuple<Tensor, Tensor>());
  Result r = run(packed_input, std::move(h), std::move(c));
  return {packed_input.with_data(std::move(r.output)), {std::move(r.h), std::move(r.c)}};
}

GRUImpl::GRUImpl(const GRUOptions& o)
    : RNNImplBase(base_options(detail::Recurrence::Gru, o)), options(o) {
  reset();
}

std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& input, Tensor hx) {
  const ModuleScope scope(*this);
  Result r = run(input, std::move(hx), {});
  return {std::move(r.output), std::move(r.h)};
}

std::tuple<utils::rnn::PackedSequence, Tensor> GRUImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& packed_input, Tensor hx) {
  const ModuleScope scope(*this);
  Result r = run(packed_input, std::move(hx), {});
  return {packed_input.with_data(std::move(r.output)), std::move(r.h)};
}

template class detail::RNNImplBase<RNNImpl>;
template class detail::RNNImplBase<LSTMImpl>;
template class detail::RNNImplBase<GRUImpl>;

}  // namespace pellucid::nn
