// The recurrences of RNN, LSTM and GRU. One step is written with ops (recurrent_step). A whole
// layer has its own node: its backward is one product a step, and the weight's gradient is one
// product for all steps instead of one each. Gradients of gradients go through the steps written
// with ops. The op definitions are in recurrent.cpp.
#include <algorithm>

#include "ops/recurrent.h"
#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::recurrent {

Tensor input_gates(const Tensor& input, const RecurrentWeights& w) {
  return linear(input, w.w_ih, w.b_ih);
}

void recurrent_step(Recurrence mode, const Tensor& gates, const RecurrentWeights& w, Tensor& h,
                    Tensor& c) {
  const Tensor hidden = linear(h, w.w_hh, w.b_hh);
  switch (mode) {
    case Recurrence::Tanh:
      h = tanh(gates + hidden);
      return;
    case Recurrence::Relu:
      h = relu(gates + hidden);
      return;
    case Recurrence::Lstm: {
      const std::vector<Tensor> g = (gates + hidden).chunk(4, -1);  // i, f, g, o
      c = sigmoid(g[1]) * c + sigmoid(g[0]) * tanh(g[2]);
      h = sigmoid(g[3]) * tanh(c);
      if (w.w_hr.defined()) h = linear(h, w.w_hr);
      return;
    }
    case Recurrence::Gru: {
      const std::vector<Tensor> x = gates.chunk(3, -1), y = hidden.chunk(3, -1);  // r, z, n
      const Tensor r = sigmoid(x[0] + y[0]), z = sigmoid(x[1] + y[1]);
      const Tensor n = tanh(x[2] + r * y[2]);
      h = n + z * (h - n);
      return;
    }
  }
}

namespace {

using autograd::AutogradContext;
using autograd::variable_list;

/// The steps written with ops: outputs [T, B, hidden], and the last states in h and c.
Tensor run_steps(Recurrence mode, const Tensor& gates, const RecurrentWeights& w, bool reverse,
                 Tensor& h, Tensor& c) {
  std::vector<Tensor> steps = gates.unbind(0);
  if (reverse) std::reverse(steps.begin(), steps.end());
  for (Tensor& step : steps) {
    recurrent_step(mode, step, w, h, c);
    step = h;
  }
  if (reverse) std::reverse(steps.begin(), steps.end());
  return stack(steps);
}

/// What a step leaves for its backward: the gates after their activation, and the cell state
/// (LSTM) or the hidden share of n before its gate (GRU).
struct StepTrace {
  Tensor gates, other;
};

/// recurrent_step without a graph, in place where it can be.
StepTrace traced_step(Recurrence mode, const Tensor& gates, const RecurrentWeights& w, Tensor& h,
                      Tensor& c) {
  const Tensor hidden = linear(h, w.w_hh, w.b_hh);
  if (mode == Recurrence::Tanh || mode == Recurrence::Relu) {
    hidden.add_(gates);
    h = mode == Recurrence::Tanh ? hidden.tanh_() : hidden.relu_();
    return {};
  }
  const int64_t size = h.size(1);
  if (mode == Recurrence::Lstm) {
    hidden.add_(gates);
    const std::vector<Tensor> g = hidden.chunk(4, 1);
    hidden.narrow(1, 0, 2 * size).sigmoid_();
    g[2].tanh_();
    g[3].sigmoid_();
    c = (g[1] * c).addcmul_(g[0], g[2]);
    h = tanh(c).mul_(g[3]);
    return {hidden, c};
  }
  const Tensor new_share = hidden.narrow(1, 2 * size, size).clone();
  hidden.narrow(1, 0, 2 * size).add_(gates.narrow(1, 0, 2 * size)).sigmoid_();
  const std::vector<Tensor> g = hidden.chunk(3, 1);  // r, z, and room for n
  g[2].copy_(gates.narrow(1, 2 * size, size)).addcmul_(g[0], new_share).tanh_();
  h = (h - g[2]).mul_(g[1]).add_(g[2]);
  return {hidden, new_share};
}

/// The gradients of one step: of its gates by the input's share and by the hidden share.
struct StepGradient {
  Tensor input, hidden;
};

/// dh and dc are the gradients of the step's states, and become those of the states before.
StepGradient step_backward(Recurrence mode, const StepTrace& trace, const Tensor& h,
                           const Tensor& before, const Tensor& c_before, Tensor& dh, Tensor& dc) {
  if (mode == Recurrence::Tanh || mode == Recurrence::Relu) {
    const Tensor d = mode == Recurrence::Tanh ? tanh_backward(dh, h) : threshold_backward(dh, h, 0);
    dh = Tensor();
    return {d, d};
  }
  if (mode == Recurrence::Lstm) {
    const std::vector<Tensor> g = trace.gates.chunk(4, 1);
    const Tensor lit = tanh(trace.other);
    dc = dc + tanh_backward(dh * g[3], lit);
    const Tensor d = cat({sigmoid_backward(dc * g[2], g[0]), sigmoid_backward(dc * c_before, g[1]),
                          tanh_backward(dc * g[0], g[2]), sigmoid_backward(dh * lit, g[3])},
                         1);
    dc = dc * g[1];
    dh = Tensor();
    return {d, d};
  }
  const std::vector<Tensor> g = trace.gates.chunk(3, 1);  // r, z, n
  const Tensor dn = tanh_backward(dh - dh * g[1], g[2]);
  const Tensor dr = sigmoid_backward(dn * trace.other, g[0]);
  const Tensor dz = sigmoid_backward(dh * (before - g[2]), g[1]);
  dh = dh * g[1];  // what goes past the gates
  return {cat({dr, dz, dn}, 1), cat({dr, dz, dn * g[0]}, 1)};
}

/// A layer in one direction as one node.
struct RecurrentLayer : autograd::Function<RecurrentLayer> {
  static variable_list forward(AutogradContext* ctx, const Tensor& gates, const Tensor& h0,
                               const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh,
                               Recurrence mode, bool reverse, bool keep) {
    const RecurrentWeights w{{}, w_hh, {}, b_hh, {}};
    const int64_t steps = gates.size(0);
    Tensor h = h0, c = c0;
    const Tensor out = empty({steps, h0.size(0), h0.size(1)}, gates.dtype());
    variable_list saved{gates, h0, c0, w_hh, b_hh, out};
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = reverse ? steps - 1 - k : k;
      StepTrace trace = traced_step(mode, gates.select(0, t), w, h, c);
      out.select(0, t).copy_(h);
      if (!keep) continue;
      saved.push_back(std::move(trace.gates));
      saved.push_back(std::move(trace.other));
    }
    if (keep) ctx->save_for_backward(std::move(saved));
    ctx->saved_object = mode;
    ctx->saved_data["reverse"] = reverse;
    return {out, h.clone(), c.defined() ? c.clone() : Tensor()};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto mode = std::any_cast<Recurrence>(ctx->saved_object);
    const bool reverse = ctx->saved_data["reverse"].toBool();
    const variable_list saved = ctx->get_saved_variables();
    if (GradMode::is_enabled()) return differentiable(mode, reverse, saved, grads);
    const Tensor &h0 = saved[1], &w_hh = saved[3], &out = saved[5];
    const int64_t steps = out.size(0);
    Tensor dh = grads[1], dc = grads[2];
    std::vector<Tensor> d_in(static_cast<size_t>(steps)), d_hidden(d_in), before(d_in);
    for (int64_t k = steps; k-- > 0;) {
      const int64_t t = reverse ? steps - 1 - k : k;
      const auto at = static_cast<size_t>(t), step = static_cast<size_t>(6 + 2 * k);
      before[at] = k == 0 ? h0 : out.select(0, reverse ? t + 1 : t - 1);
      dh = dh + grads[0].select(0, t);
      StepGradient d = step_backward(mode, {saved[step], saved[step + 1]}, out.select(0, t),
                                     before[at], k == 0 ? saved[2] : saved[step - 1], dh, dc);
      const Tensor back = d.hidden.matmul(w_hh);
      dh = dh.defined() ? dh + back : back;
      d_in[at] = std::move(d.input);
      d_hidden[at] = std::move(d.hidden);
    }
    const Tensor all = cat(d_hidden);
    const Tensor db = saved[4].defined() ? all.sum(0) : Tensor();
    const Tensor input = mode == Recurrence::Gru ? cat(d_in) : all;
    return {input.view(saved[0].sizes()),
            dh,
            mode == Recurrence::Lstm ? dc : Tensor(),
            all.t().matmul(cat(before)),
            db,
            {},
            {},
            {}};
  }

  /// The same gradients through the graph of the steps, for a backward that is differentiated.
  static variable_list differentiable(Recurrence mode, bool reverse, const variable_list& saved,
                                      const variable_list& grads) {
    Tensor h = saved[1], c = saved[2];
    const Tensor out = run_steps(mode, saved[0], {{}, saved[3], {}, saved[4], {}}, reverse, h, c);
    variable_list outputs{out, h}, given{grads[0], grads[1]}, inputs;
    if (mode == Recurrence::Lstm) {
      outputs.push_back(c);
      given.push_back(grads[2]);
    }
    for (size_t i = 0; i < 5; ++i)
      if (saved[i].defined() && saved[i].requires_grad()) inputs.push_back(saved[i]);
    variable_list found = autograd::grad(outputs, inputs, given, true, true, true);
    variable_list all(8);  // the last three arguments are no tensors
    for (size_t i = 0, k = 0; i < 5; ++i)
      if (saved[i].defined() && saved[i].requires_grad()) all[i] = found[k++];
    return all;
  }
};

}  // namespace

Tensor run_layer(Recurrence mode, const Tensor& input, const RecurrentWeights& w, bool reverse,
                 Tensor& h, Tensor& c) {
  const Tensor gates = input_gates(input, w);
  if (w.w_hr.defined()) return run_steps(mode, gates, w, reverse, h, c);
  const bool keep = GradMode::is_enabled() &&
                    autograd::detail_fn::any_requires_grad({gates, h, c, w.w_hh, w.b_hh});
  variable_list out = RecurrentLayer::apply(gates, h, c, w.w_hh, w.b_hh, mode, reverse, keep);
  h = out[1];
  c = out[2];
  return out[0];
}

Tensor run_packed_layer(Recurrence mode, const Tensor& input, IntArrayRef batch_sizes,
                        const RecurrentWeights& w, bool reverse, Tensor& h, Tensor& c) {
  std::vector<Tensor> steps = input_gates(input, w).split(batch_sizes);
  const auto rows = [](const Tensor& t, int64_t from, int64_t to) {
    return t.defined() ? t.narrow(0, from, to - from) : t;
  };
  const auto joined = [](const std::vector<Tensor>& parts) {
    return parts[0].defined() ? cat(parts) : Tensor();
  };
  const Tensor h0 = h, c0 = c;
  int64_t running = reverse ? 0 : batch_sizes[0];
  std::vector<Tensor> ended_h, ended_c;  // the last states of sequences that are over
  if (reverse) h = rows(h0, 0, 0), c = rows(c0, 0, 0);
  for (size_t k = 0; k < steps.size(); ++k) {
    const size_t t = reverse ? steps.size() - 1 - k : k;
    const int64_t size = batch_sizes[t];
    if (size > running) {  // backwards, the shorter sequences begin later
      h = joined({h, rows(h0, running, size)});
      c = joined({c, rows(c0, running, size)});
    } else if (size < running) {
      ended_h.push_back(rows(h, size, running));
      ended_c.push_back(rows(c, size, running));
      h = rows(h, 0, size);
      c = rows(c, 0, size);
    }
    running = size;
    recurrent_step(mode, steps[t], w, h, c);
    steps[t] = h;
  }
  if (!ended_h.empty()) {
    ended_h.push_back(h);
    ended_c.push_back(c);
    std::reverse(ended_h.begin(), ended_h.end());
    std::reverse(ended_c.begin(), ended_c.end());
    h = joined(ended_h);
    c = joined(ended_c);
  }
  return cat(steps);
}

}  // namespace pellucid::recurrent
