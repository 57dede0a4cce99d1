"""pellucid: deep learning on CPUs with PyTorch's names, that one can see through.

    import pellucid as torch

Functions and Tensor methods of operators are bound from their records (`pellucid ops`, `pellucid.add.__doc__`).
"""
from . import _C
from . import _functions, _tensor, _types

_tensor.install()
_C._profile_package(__file__.rpartition("/")[0] + "/")

# What every record gives; what begins with an underscore and gradients' own ops stay in _C.functions.
globals().update({_name: _f for _name, _f in _C.functions.items()
                  if not _name.startswith("_") and not _name.endswith("_backward")})
globals().update({_name: _f for _name, _f in vars(_functions).items()
                  if callable(_f) and getattr(_f, "__module__", "").startswith("pellucid") and not _name.startswith("_")
                  and _name not in ("check_device", "atleast")})
globals().update({_name: getattr(_C, _name) for _name in (
    "Error ShapeError IndexError ValueError OutOfMemoryError NotImplementedError IoError AutogradError Tensor Size dtype "
    "memory_format contiguous_format preserve_format channels_last is_grad_enabled is_inference_mode_enabled "
    "is_anomaly_enabled is_anomaly_check_nan_enabled get_num_threads set_num_threads get_default_dtype promote_types can_cast "
    "seed initial_seed").split()})

float64 = double = _C.float64
float32 = float = _C.float32
float16 = half = _C.float16
bfloat16 = _C.bfloat16
int64 = long = _C.int64
int32 = int = _C.int32
int16 = short = _C.int16
int8, uint8, bool = _C.int8, _C.uint8, _C.bool
device, layout, strided, finfo, iinfo = (_types.device, _types.layout, _types.strided, _types.finfo, _types.iinfo)
inf, nan, pi, e = 1e400, 1e400 - 1e400, 3.141592653589793, 2.718281828459045
newaxis = None
clip, clip_ = clamp, clamp_  # noqa: F821

from .autograd.forward_modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from .random import Generator, default_generator, get_rng_state, set_rng_state  # noqa: E402
from .serialization import load, save  # noqa: E402
from ._legacy import (BoolTensor, ByteTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor,  # noqa: E402
                      set_default_device, set_default_tensor_type)

__version__ = "0.1.0"
_SUBMODULES = {"nn", "profiler", "optim", "utils", "autograd", "linalg", "special", "testing", "random", "cuda", "backends", "types",
               "serialization", "torchviz"}


def __getattr__(name):
    """Submodules are imported when first named."""
    if name in _SUBMODULES:
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'pellucid' has no attribute '{name}'")
