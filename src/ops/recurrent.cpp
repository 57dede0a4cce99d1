// Recurrent layers as ops: one step (rnn_tanh_cell, lstm_cell…) and whole stacks of layers in one
// or two directions (rnn_tanh, lstm…), with PyTorch's arguments. The modules of both languages call
// them. The arithmetic of a layer is in recurrent_steps.cpp.
#include "ops/recurrent.h"

#include <numeric>

#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

using namespace recurrent;

namespace {

void check_dtypes(const Call& c) {
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has_in(i)) check_same_dtype(c, c.in(0), c.in(i));
}

/// Weights whose rows are the gates of so many hidden features, and whose columns fit the state.
void check_weights(const Call& c, Recurrence mode, const RecurrentWeights& w, int64_t hidden,
                   int64_t out) {
  const int64_t gates = mode == Recurrence::Lstm ? 4 : mode == Recurrence::Gru ? 3 : 1;
  const auto fits = [&](const Tensor& t, IntArrayRef sizes) {
    return !t.defined() || t.sizes() == sizes;
  };
  PELLUCID_CHECK(w.w_ih.dim() == 2 && w.w_ih.size(0) == gates * hidden &&
                     fits(w.w_hh, {gates * hidden, out}) && fits(w.b_ih, {gates * hidden}) &&
                     fits(w.b_hh, {gates * hidden}) && fits(w.w_hr, {out, hidden}),
                 ShapeError,
                 "{}: states of {} features need weights [{}, features] and [{}, {}] and biases "
                 "[{}], found {} and {}{}.",
                 c.name(), hidden, gates * hidden, gates * hidden, out, gates * hidden,
                 w.w_ih.sizes(), w.w_hh.sizes(),
                 w.b_ih.defined() ? fmt::format(" with biases {}", w.b_ih.sizes()) : "");
}

/// One step; inputs are the input, the states, and from `first` on w_ih, w_hh, b_ih, b_hh.
Tensors compose_cell(const Call& c, Recurrence mode, size_t first) {
  PELLUCID_CHECK(c.input_count() == first + 4, ValueError,
                 "{}: hx must be the two tensors (h, c), but has {}.", c.name(),
                 static_cast<int64_t>(c.input_count()) - 5);
  for (size_t i = 0; i < first + 2; ++i)
    PELLUCID_CHECK(c.has_in(i), ValueError, "{}: input {} is an undefined tensor.", c.name(), i);
  check_dtypes(c);
  const RecurrentWeights w{c.in(first), c.in(first + 1), c.in(first + 2), c.in(first + 3), {}};
  Tensor h = c.in(1), state = first == 3 ? c.in(2) : Tensor();
  PELLUCID_CHECK(c.in(0).dim() == h.dim() && (h.dim() == 1 || h.dim() == 2), ShapeError,
                 "{}: the input and its state must both be [B, features] or [features], but are {} "
                 "and {}.",
                 c.name(), c.in(0).sizes(), h.sizes());
  PELLUCID_CHECK(!state.defined() || state.sizes() == h.sizes(), ShapeError,
                 "{}: h and c must have the same sizes, but have {} and {}.", c.name(), h.sizes(),
                 state.sizes());
  check_weights(c, mode, w, h.size(-1), h.size(-1));
  recurrent_step(mode, input_gates(c.in(0), w), w, h, state);
  return state.defined() ? Tensors{h, state} : Tensors{h};
}

template <Recurrence mode> Tensors compose_one_cell(const Call& c) {
  return compose_cell(c, mode, mode == Recurrence::Lstm ? 3 : 2);
}

/// What a stack of layers is given, by the attributes has_biases, num_layers, dropout, train,
/// bidirectional, batch_first and batch_sizes.
struct Stack {
  Stack(const Call& c, Recurrence mode)
      : mode(mode),
        lstm(mode == Recurrence::Lstm),
        biases(c.flag(0)),
        layers(c.integer(1)),
        directions(c.flag(4) ? 2 : 1),
        dropout(c.flag(3) ? c.number(2) : 0),
        packed(c.has_attr(6)),
        batch_first(c.flag(5) && !packed),
        batch_sizes(packed ? c.ints(6) : IntArrayRef()),
        first(lstm ? 3 : 2) {}

  /// The weights of one layer in one direction, numbered layer by layer.
  RecurrentWeights weights(const Call& c, int64_t at) const {
    size_t i = first + static_cast<size_t>(at) * count;
    RecurrentWeights w;
    w.w_ih = c.in(i++);
    w.w_hh = c.in(i++);
    if (biases) w.b_ih = c.in(i++);
    if (biases) w.b_hh = c.in(i++);
    if (projected) w.w_hr = c.in(i++);
    return w;
  }

  Recurrence mode;
  bool lstm, biases;
  int64_t layers, directions;
  double dropout;
  bool packed, batch_first;
  IntArrayRef batch_sizes;
  size_t first;            ///< the input at which the weights begin
  bool projected = false;  ///< the cells' state has another size than the outputs
  size_t count = 0;        ///< how many weights a layer has in one direction
};

void check_batch_sizes(const Call& c, const Stack& s) {
  const IntArrayRef sizes = s.batch_sizes;
  check_dim(c, c.in(0), 2, "input");
  bool falling = !sizes.empty() && sizes[sizes.size() - 1] > 0 && sizes[0] <= c.in(0).size(0);
  for (size_t t = 1; t < sizes.size(); ++t) falling &= sizes[t] <= sizes[t - 1];
  PELLUCID_CHECK(
      falling, ValueError,
      "{}: batch_sizes must be positive, never rise and not pass the {} steps, found {}.", c.name(),
      c.in(0).size(0), sizes);
  const int64_t steps = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  PELLUCID_CHECK(c.in(0).size(0) == steps, ShapeError,
                 "{}: packed sequences of {} steps must be [{}, features], but are {}.", c.name(),
                 steps, steps, c.in(0).sizes());
}

Stack check_stack(const Call& c, Recurrence mode) {
  Stack s(c, mode);
  for (size_t i = 0; i < c.input_count(); ++i)
    PELLUCID_CHECK(c.has_in(i), ValueError, "{}: input {} is an undefined tensor.", c.name(), i);
  check_dtypes(c);
  for (size_t i = 1; i < s.first; ++i) check_dim(c, c.in(i), 3, i == 1 ? "hx" : "cx");
  s.projected = s.lstm && c.in(1).size(2) != c.in(2).size(2);
  s.count = 2 + (s.biases ? 2 : 0) + (s.projected ? 1 : 0);
  PELLUCID_CHECK(s.layers > 0 && s.layers <= static_cast<int64_t>(c.input_count()), ValueError,
                 "{}: num_layers is {}, for {} parameters.", c.name(), s.layers,
                 c.input_count() - s.first);
  const int64_t sides = s.layers * s.directions;
  PELLUCID_CHECK(
      s.layers > 0 && c.input_count() == s.first + static_cast<size_t>(sides) * s.count, ValueError,
      "{}: {} layers in {} direction(s) need {} parameters, but params has {}.", c.name(), s.layers,
      s.directions, static_cast<size_t>(sides) * s.count, c.input_count() - s.first);
  if (s.packed)
    check_batch_sizes(c, s);
  else
    check_dim(c, c.in(0), 3, "input");
  const int64_t batch = s.packed ? s.batch_sizes[0] : c.in(0).size(s.batch_first ? 0 : 1);
  PELLUCID_CHECK(s.packed || c.in(0).size(s.batch_first ? 1 : 0) > 0, ShapeError,
                 "{}: the sequence is empty (input {}).", c.name(), c.in(0).sizes());
  for (size_t i = 1; i < s.first; ++i)
    PELLUCID_CHECK(c.in(i).size(0) == sides && c.in(i).size(1) == batch, ShapeError,
                   "{}: a state must be [{}, {}, size], but is {}.", c.name(), sides, batch,
                   c.in(i).sizes());
  return s;
}

/// All layers and directions: the outputs, the last states, and of an LSTM the last cell states.
template <Recurrence mode> Tensors compose_stack(const Call& c) {
  const Stack s = check_stack(c, mode);
  Tensor x = s.batch_first ? c.in(0).transpose(0, 1) : c.in(0);
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    std::vector<Tensor> sides;
    for (int64_t d = 0; d < s.directions; ++d) {
      const int64_t at = layer * s.directions + d;
      const RecurrentWeights w = s.weights(c, at);
      Tensor h = c.in(1).select(0, at), cell = s.lstm ? c.in(2).select(0, at) : Tensor();
      check_weights(c, mode, w, c.in(s.lstm ? 2 : 1).size(2), h.size(1));
      sides.push_back(s.packed ? run_packed_layer(mode, x, s.batch_sizes, w, d == 1, h, cell)
                               : run_layer(mode, x, w, d == 1, h, cell));
      last_h.push_back(h);
      if (s.lstm) last_c.push_back(cell);
    }
    x = s.directions == 2 ? cat(sides, -1) : sides[0];
    if (s.dropout > 0 && layer + 1 < s.layers) x = dropout(x, s.dropout, true);
  }
  if (s.batch_first) x = x.transpose(0, 1);
  return s.lstm ? Tensors{x, stack(last_h), stack(last_c)} : Tensors{x, stack(last_h)};
}

Tensor weight(IntArrayRef sizes) { return sample_uniform(sizes, -1, 1); }

/// Weights for 2 features and 2 hidden ones.
std::vector<Tensor> weights(int64_t gates, int64_t layers, int64_t directions, bool biases) {
  std::vector<Tensor> out;
  for (int64_t at = 0; at < layers * directions; ++at) {
    out.push_back(weight({gates * 2, at < directions ? 2 : 2 * directions}));
    out.push_back(weight({gates * 2, 2}));
    for (int b = 0; biases && b < 2; ++b) out.push_back(weight({gates * 2}));
  }
  return out;
}

template <int64_t gates> void cell_samples(Samples& s) {
  const Tensor x = sample_randn({3, 2}), w = weight({gates * 2, 2});
  const auto state = [](const Tensor& h) {
    return gates == 4 ? Value::tensors({h, sample_randn(h.sizes())}) : Value(h);
  };
  s.add({x, state(sample_randn({3, 2})), w, weight({gates * 2, 2}), weight({gates * 2}),
         weight({gates * 2})});
  s.add({x, state(sample_randn({3, 2})), w, weight({gates * 2, 2})});
  s.error({x, state(sample_randn({2})), w, w}, "must both be [B, features] or [features]");
}

template <int64_t gates> void stack_samples(Samples& s) {
  const auto states = [](int64_t sides) {
    std::vector<Tensor> v{sample_randn({sides, 2, 2})};
    if (gates == 4) v.push_back(sample_randn({sides, 2, 2}));
    return v;
  };
  const auto add = [&](const Tensor& x, int64_t layers, int64_t directions, bool biases,
                       bool batch_first, std::vector<NamedValue> packed) {
    std::vector<Value> args{x};
    for (const Tensor& t : states(layers * directions)) args.emplace_back(t);
    for (Value v :
         {Value::tensors(weights(gates, layers, directions, biases)), Value(biases), Value(layers),
          Value(0.0), Value(false), Value(directions == 2), Value(batch_first)})
      args.push_back(std::move(v));
    s.add(std::move(args), std::move(packed));
  };
  add(sample_randn({3, 2, 2}), 1, 1, true, false, {});
  add(sample_randn({2, 3, 2}), 2, 2, false, true, {});
  add(sample_randn({5, 2}), 1, 2, true, false, {{"batch_sizes", Value::ints({2, 2, 1})}});
  std::vector<Value> wrong{sample_randn({3, 2, 2})};
  for (const Tensor& t : states(1)) wrong.emplace_back(t);
  for (Value v : {Value::tensors(weights(gates, 1, 1, false)), Value(true), Value(int64_t{1}),
                  Value(0.0), Value(false), Value(false), Value(false)})
    wrong.push_back(std::move(v));
  s.error(std::move(wrong), "1 layers in 1 direction(s) need 4 parameters, but params has 2");
}

}  // namespace

extern constinit const OpDef rnn_tanh_cell_op = {
    .schema =
        "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        "Tensor? b_hh=None) -> Tensor",
    .doc = "tanh(w_ih input + b_ih + w_hh hx + b_hh).",
    .compose = compose_one_cell<Recurrence::Tanh>,
    .samples = cell_samples<1>};

extern constinit const OpDef rnn_relu_cell_op = {
    .schema =
        "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        "Tensor? b_hh=None) -> Tensor",
    .doc = "relu(w_ih input + b_ih + w_hh hx + b_hh).",
    .compose = compose_one_cell<Recurrence::Relu>,
    .samples = cell_samples<1>};

extern constinit const OpDef lstm_cell_op = {
    .schema =
        "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        "Tensor? b_hh=None) -> (Tensor, Tensor)",
    .doc =
        "One step of an LSTM from hx = (h, c): c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = "
        "sigmoid(o) tanh(c'), with the gates (i, f, g, o) = w_ih input + b_ih + w_hh h + b_hh.",
    .compose = compose_one_cell<Recurrence::Lstm>,
    .samples = cell_samples<4>};

extern constinit const OpDef gru_cell_op = {
    .schema =
        "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
        "Tensor? b_hh=None) -> Tensor",
    .doc =
        "One step of a GRU: n + sigmoid(z) (hx - n) with n = tanh(x_n + sigmoid(r) y_n), x = w_ih "
        "input + b_ih, y = w_hh hx + b_hh, r = x_r + y_r and z = x_z + y_z.",
    .compose = compose_one_cell<Recurrence::Gru>,
    .samples = cell_samples<3>};

extern constinit const OpDef rnn_tanh_op = {
    .schema =
        "rnn_tanh(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
        "float dropout, bool train, bool bidirectional, bool batch_first, *, int[]? "
        "batch_sizes=None) -> (Tensor, Tensor)",
    .doc =
        "Layers of rnn_tanh_cell over the steps of sequences: the outputs and the last states. "
        "With batch_sizes, input is packed: batch_sizes[t] sequences have a step t.",
    .compose = compose_stack<Recurrence::Tanh>,
    .samples = stack_samples<1>};

extern constinit const OpDef rnn_relu_op = {
    .schema =
        "rnn_relu(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
        "float dropout, bool train, bool bidirectional, bool batch_first, *, int[]? "
        "batch_sizes=None) -> (Tensor, Tensor)",
    .doc = "Layers of rnn_relu_cell over the steps of sequences; as rnn_tanh.",
    .compose = compose_stack<Recurrence::Relu>,
    .samples = stack_samples<1>};

extern constinit const OpDef lstm_op = {
    .schema =
        "lstm(Tensor input, Tensor hx, Tensor cx, Tensor[] params, bool has_biases, "
        "int num_layers, float dropout, bool train, bool bidirectional, bool batch_first, *, "
        "int[]? batch_sizes=None) -> (Tensor, Tensor, Tensor)",
    .doc =
        "Layers of lstm_cell over the steps of sequences: the outputs, the last h and the last c; "
        "as rnn_tanh. Where hx and cx differ in size, outputs are projected by a fifth parameter "
        "of each layer.",
    .compose = compose_stack<Recurrence::Lstm>,
    .samples = [](Samples& s) {
      stack_samples<4>(s);
      const std::vector<Tensor> params{weight({8, 2}), weight({8, 1}), weight({8}), weight({8}),
                                       weight({1, 2})};
      s.add({sample_randn({3, 2, 2}), sample_randn({1, 2, 1}), sample_randn({1, 2, 2}),
             Value::tensors(params), true, 1, 0.0, false, false, false});
    }};

extern constinit const OpDef gru_op = {
    .schema =
        "gru(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
        "float dropout, bool train, bool bidirectional, bool batch_first, *, int[]? "
        "batch_sizes=None) -> (Tensor, Tensor)",
    .doc = "Layers of gru_cell over the steps of sequences; as rnn_tanh.",
    .compose = compose_stack<Recurrence::Gru>,
    .samples = stack_samples<3>};

}  // namespace pellucid
