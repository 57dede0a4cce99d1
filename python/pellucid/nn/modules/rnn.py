"""RNN, LSTM, GRU and their cells. The layers and the steps are ops (`_C.functions["lstm"]`, "lstm_cell"…), which C++ calls too."""
import math

from ... import _C
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .linear import options
from .module import Module

_empty, _zeros = _C.functions["empty"], _C.functions["zeros"]
_LAYERS = {mode: _C.functions[mode.lower()] for mode in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU")}
_CELLS = {mode: _C.functions[f"{mode.lower()}_cell"] for mode in _LAYERS}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """Several layers, one or two directions."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        for name, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
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

    def _states(self, states, batch, dtype):
        """One [layers * directions, batch, …] tensor for each part of the state: those that were given, or zeros."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [(count, batch, n) for n in ([self.proj_size or self.hidden_size, self.hidden_size] if self.mode == "LSTM"
                                             else [self.hidden_size])]
        if states is None:
            return [_zeros(size, dtype=dtype) for size in sizes]
        for state, size in zip(states, sizes):
            if tuple(state.shape) != size:
                raise RuntimeError(f"Expected hidden size {size}, got {list(state.shape)}")
        return states

    def _layers(self, x, states, batch_first, batch_sizes=None):
        weights = [w for side in self.all_weights for w in side]
        output, *final = _LAYERS[self.mode](x, *states, weights, self.bias, self.num_layers, self.dropout, self.training,
                                            self.bidirectional, batch_first, batch_sizes=batch_sizes)
        return output, tuple(final)

    def _check_features(self, input):
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")

    def _run_packed(self, packed, states):
        """States are given and returned in the order of the batch, and run in the packed order."""
        self._check_features(packed.data)
        sizes, order, back = packed.batch_sizes.tolist(), packed.sorted_indices, packed.unsorted_indices
        states = self._states(states, sizes[0], packed.data.dtype)
        if order is not None:
            states = [s.index_select(1, order) for s in states]
        output, final = self._layers(packed.data, states, False, sizes)
        if back is not None:
            final = tuple(s.index_select(1, back) for s in final)
        return PackedSequence(output, packed.batch_sizes, order, back), final

    def _run(self, input, states):
        """states: one [layers * directions, B, …] tensor for each part of the state, or None."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        single = input.ndim == 2
        if input.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        self._check_features(input)
        at = 0 if self.batch_first else 1  # where the batch is
        x = input.unsqueeze(at) if single else input
        if single and states is not None:
            states = [s.unsqueeze(1) for s in states]
        output, final = self._layers(x, self._states(states, x.shape[at], x.dtype), self.batch_first)
        return (output.squeeze(at), tuple(s.squeeze(1) for s in final)) if single else (output, final)

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
        given = states if self.mode == "LSTM" else states[0]
        found = _CELLS[self.mode](input, given, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return tuple(found) if self.mode == "LSTM" else (found,)

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
