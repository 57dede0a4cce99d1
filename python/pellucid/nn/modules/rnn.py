"""RNN, LSTM, GRU and their cells. The input's part of the gates is one product for all steps."""
import math

from ... import _C
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence, _padded, pack_padded_sequence
from .linear import options
from .module import Module

_empty, _zeros, _stack, _cat, _where = (_C.functions[n] for n in ("empty", "zeros", "stack", "cat", "where"))


# One step: gates from the input (already a product), the state, the hidden weights.

def _rnn_step(activation):
    def step(gi, state, w, b):
        h, = state
        return (activation(gi + F.linear(h, w, b)),)
    return step


def _lstm_step(gi, state, w, b, projection=None):
    h, c = state
    i, f, g, o = (gi + F.linear(h, w, b)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if projection is None else F.linear(h, projection)), c


def _gru_step(gi, state, w, b):
    h, = state
    gh = F.linear(h, w, b)
    ir, iz, inn = gi.chunk(3, -1)
    hr, hz, hn = gh.chunk(3, -1)
    z = (iz + hz).sigmoid()
    n = (inn + (ir + hr).sigmoid() * hn).tanh()
    return ((h - n) * z + n,)


_STEPS = {"RNN_TANH": _rnn_step(_C.functions["tanh"]), "RNN_RELU": _rnn_step(_C.functions["relu"]), "LSTM": _lstm_step,
          "GRU": _gru_step}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """Several layers, one or two directions."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError("hidden_size and num_layers must be greater than zero")
        if not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        gates, made = _GATES[mode] * hidden_size, options(device, dtype)
        out = proj_size or hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else out * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                self.register_parameter(f"weight_ih{suffix}", Parameter(_empty((gates, size), **made)))
                self.register_parameter(f"weight_hh{suffix}", Parameter(_empty((gates, out), **made)))
                if bias:
                    self.register_parameter(f"bias_ih{suffix}", Parameter(_empty(gates, **made)))
                    self.register_parameter(f"bias_hh{suffix}", Parameter(_empty(gates, **made)))
                if proj_size:
                    self.register_parameter(f"weight_hr{suffix}", Parameter(_empty((proj_size, hidden_size), **made)))
        self.reset_parameters()

    def _suffixes(self, layer):
        return [f"_l{layer}", f"_l{layer}_reverse"][:2 if self.bidirectional else 1]

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self):
        """Nothing to do: weights are used where they are."""

    @property
    def all_weights(self):
        kinds = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if self.bias else []) + (
            ["weight_hr"] if self.proj_size else [])
        return [[getattr(self, k + s) for k in kinds] for layer in range(self.num_layers) for s in self._suffixes(layer)]

    def _direction(self, x, state, suffix, reverse, alive=None):
        """x [T, B, …] through one layer in one direction: the outputs [T, B, …] and the last state. Where `alive` [T, B, 1]
        says that a sequence has no such step, its state stays."""
        get = lambda name: getattr(self, name + suffix) if self.bias or "bias" not in name else None
        gates = F.linear(x, get("weight_ih"), get("bias_ih")).unbind(0)
        w, b = get("weight_hh"), get("bias_hh")
        step = _STEPS[self.mode]
        extra = (getattr(self, "weight_hr" + suffix),) if self.proj_size else ()
        outputs = []
        steps = range(len(gates))
        for t in reversed(steps) if reverse else steps:
            new = step(gates[t], state, w, b, *extra)
            state = new if alive is None else tuple(_where(alive[t], n, s) for n, s in zip(new, state))
            outputs.append(state[0])
        return _stack(outputs[::-1] if reverse else outputs), state

    def _run_packed(self, packed, states):
        x, lengths = _padded(packed)
        alive = (_C.functions["arange"](0, x.shape[0]).unsqueeze(1) < _C._make_tensor(lengths)).unsqueeze(2)
        order, back = packed.sorted_indices, packed.unsorted_indices
        if states is not None and order is not None:
            states = [s.index_select(1, order) for s in states]
        y, final = self._run(x if not self.batch_first else x.transpose(0, 1), states, alive)
        y = pack_padded_sequence(y, lengths, self.batch_first)
        if back is not None:
            final = tuple(s.index_select(1, back) for s in final)
        return PackedSequence(y.data, packed.batch_sizes, order, back), final

    def _run(self, input, states, alive=None):
        """states: one [layers * directions, B, …] tensor for each part of the state, or None."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        single = input.ndim == 2
        if input.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][:2 if self.mode == "LSTM" else 1]
        if states is None:
            states = [_zeros((count, x.shape[1], n), dtype=input.dtype) for n in sizes]
        elif single:
            states = [s.unsqueeze(1) for s in states]
        for s, n in zip(states, sizes):
            if tuple(s.shape) != (count, x.shape[1], n):
                raise RuntimeError(f"Expected hidden size {(count, x.shape[1], n)}, got {list(s.shape)}")
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for d, suffix in enumerate(self._suffixes(layer)):
                place = layer * (2 if self.bidirectional else 1) + d
                y, state = self._direction(x, tuple(s[place] for s in states), suffix, d == 1, alive)
                outputs.append(y)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else _cat(outputs, -1)
            if self.dropout and layer + 1 < self.num_layers:
                x = F.dropout(x, self.dropout, self.training)
        final = tuple(_stack([state[k] for state in last]) for k in range(len(sizes)))
        if single:
            return x.squeeze(1), tuple(s.squeeze(1) for s in final)
        return (x.transpose(0, 1) if self.batch_first else x), final

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += ", bias=False"
        if self.batch_first:
            text += ", batch_first=True"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(RNNBase):
    """h = tanh(W x + b + U h + c), or relu."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        output, (h,) = self._run(input, None if hx is None else (hx,))
        return output, h


class LSTM(RNNBase):
    """Long short-term memory."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)

    def forward(self, input, hx=None):
        return self._run(input, hx)


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, input, hx=None):
        output, (h,) = self._run(input, None if hx is None else (hx,))
        return output, h


class _Cell(Module):
    """One step of a layer."""

    def __init__(self, mode, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.bias = mode, input_size, hidden_size, bias
        gates, made = _GATES[mode] * hidden_size, options(device, dtype)
        self.weight_ih = Parameter(_empty((gates, input_size), **made))
        self.weight_hh = Parameter(_empty((gates, hidden_size), **made))
        self.register_parameter("bias_ih", Parameter(_empty(gates, **made)) if bias else None)
        self.register_parameter("bias_hh", Parameter(_empty(gates, **made)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, input, states):
        if input.ndim not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if states is None:
            zeros = _zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype)
            states = (zeros,) * (2 if self.mode == "LSTM" else 1)
        gates = F.linear(input, self.weight_ih, self.bias_ih)
        return _STEPS[self.mode](gates, states, self.weight_hh, self.bias_hh)

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of RNN."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, device, dtype)

    def forward(self, input, hx=None):
        return self._step(input, None if hx is None else (hx,))[0]


class LSTMCell(_Cell):
    """One step of LSTM."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, bias, device, dtype)

    def forward(self, input, hx=None):
        return self._step(input, hx)


class GRUCell(_Cell):
    """One step of GRU."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, bias, device, dtype)

    def forward(self, input, hx=None):
        return self._step(input, None if hx is None else (hx,))[0]
