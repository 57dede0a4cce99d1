"""torch.autograd: gradients of any order, custom functions, modes, checks."""
from .. import _C
from .._tensor import Tensor
from . import forward_modes, function, functional, graph  # noqa: F401
from .forward_modes import (detect_anomaly, enable_grad, inference_mode, no_grad, set_detect_anomaly,  # noqa: F401
                            set_grad_enabled)
from .function import Function  # noqa: F401
from .gradcheck import gradcheck, gradgradcheck  # noqa: F401


def _tensors(value):
    if value is None:
        return []
    return [value] if isinstance(value, Tensor) else list(value)


def _grads(grads, count):
    found = [None] * count if grads is None else _tensors(grads)
    for g in found:
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    return found


def _check_tensors(tensors, what):
    for t in tensors:
        if not isinstance(t, Tensor):
            raise _C.TypeError(f"{what}: all {what.split()[-1]} have to be Tensors, but got {type(t).__name__}")
    return tensors


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Sums gradients of tensors into the leaves, or only into inputs."""
    tensors = _check_tensors(_tensors(tensors), "backward of tensors")
    grads = _grads(grad_tensors if grad_tensors is not None else grad_variables, len(tensors))
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    _C._backward(tensors, grads, retain_graph, create_graph, _check_tensors(_tensors(inputs), "backward to inputs"))


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of outputs with respect to inputs, without touching any .grad."""
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched is not there; call grad once for each of the gradients.")
    outputs = _check_tensors(_tensors(outputs), "grad of outputs")
    inputs = _check_tensors(_tensors(inputs), "grad to inputs")
    found = _C._grad(outputs, inputs, _grads(grad_outputs, len(outputs)), retain_graph, create_graph,
                     bool(allow_unused) or materialize_grads)
    if materialize_grads:
        found = [_C.functions["zeros_like"](t) if g is None else g for g, t in zip(found, inputs)]
    return tuple(found)


class _VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """A tensor: tensors and variables have been one since PyTorch 0.4."""

    def __new__(cls, data, requires_grad=False, volatile=False):
        made = data.detach() if isinstance(data, Tensor) else _C._make_tensor(data)
        return made.requires_grad_() if requires_grad else made


def __getattr__(name):
    if name in ("profiler", "grad_mode", "variable"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.autograd' has no attribute '{name}' in pellucid")
