"""torch.nn.utils: clipping of gradients, parameters as one vector, normed weights, sequences of several lengths."""
from ... import _C
from ..._tensor import Tensor
from ...autograd.forward_modes import no_grad
from . import rnn  # noqa: F401
from .reparameterize import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm  # noqa: F401


def _with_gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in parameters if p.grad is not None]


@no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that their joint norm is at most max_norm; returns the norm before."""
    found = _with_gradients(parameters)
    total = get_total_norm([p.grad for p in found], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(found, max_norm, total)
    return total


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The joint norm of some tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _C._total_norm(tensors, float(norm_type), error_if_nonfinite)


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients by max_norm / total_norm where that is less than 1."""
    _C._clip_with_norm(_with_gradients(parameters), float(max_norm), total_norm)


@no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Cuts every gradient value to [-clip_value, clip_value]."""
    _C._clip_grad_value(_with_gradients(parameters), float(clip_value))


clip_grad_norm = clip_grad_norm_


def parameters_to_vector(parameters):
    """All values, one parameter after another."""
    return _C.functions["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """The reverse: each parameter becomes its part of vec, sharing its memory."""
    at = 0
    for p in parameters:
        p.data = vec[at:at + p.numel()].view_as(p).detach()
        at += p.numel()


def skip_init(module_cls, *args, **kwargs):
    """A module as it is made, with its initial values: making them costs little here."""
    kwargs.pop("device", None)
    return module_cls(*args, **kwargs)


def __getattr__(name):
    if name in ("parametrize", "parametrizations", "prune", "stateless"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.nn.utils' has no attribute '{name}' in pellucid")
