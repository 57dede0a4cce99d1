"""torch.amp: mixed precision. Every op here computes in the dtype of its tensors, so autocast changes nothing and says so once;
a scaler that is asked for scales as PyTorch's does."""
import functools
import warnings

from .. import _C
from .._promises import not_kept
from .grad_scaler import GradScaler

__all__ = ["autocast", "GradScaler", "custom_fwd", "custom_bwd", "is_autocast_available"]
_DEVICES = ("cpu", "cuda", "mps", "xpu")


class autocast:
    """A scope or decorator that is accepted with a warning: ops keep the dtype of their tensors, float32 stays float32."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _DEVICES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if dtype is not None and not isinstance(dtype, _C.dtype):
            raise TypeError(f"autocast: dtype must be a torch.dtype, not {type(dtype).__name__}")
        if enabled and device_type == "cpu":
            not_kept("torch.autocast", "ops keep the dtype of their tensors, float32 stays float32; nothing is computed in lower "
                                       "precision. Convert the model with .to(torch.bfloat16) instead.")
        elif enabled:
            warnings.warn(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling",
                          stacklevel=2)
            enabled = False
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return call


def custom_fwd(function=None, *, device_type=None, cast_inputs=None):
    """Accepted on a Function's forward: there is nothing to cast."""
    return function if function is not None else lambda f: f


def custom_bwd(function=None, *, device_type=None):
    """Accepted on a Function's backward: there is nothing to cast."""
    return function if function is not None else lambda f: f


def is_autocast_available(device_type):
    """False: no op has a form of lower precision that autocast would choose."""
    return False
