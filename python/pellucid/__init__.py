"""pellucid: deep learning on CPUs with PyTorch's names, that one can see through.

    import pellucid as torch

Functions and Tensor methods of operators are bound from their op definitions (`pellucid ops`, `pellucid.add.__doc__`).
"""
import os as _os

from . import _C
from . import _functions, _sharing, _storage, _tensor, _tensor_writes, _types

_tensor.install()
_storage.install()
_sharing.install()
_tensor_writes.install()
_C._profile_package(*(_file.rpartition("/")[0] + "/" for _file in (__file__, _os.__file__)))

# A function for every op; what begins with an underscore and gradients' own ops stay in _C.functions.
globals().update({_name: _f for _name, _f in _C.functions.items()
                  if not _name.startswith("_") and not _name.endswith("_backward")})
globals().update({_name: _f for _name, _f in vars(_functions).items()
                  if callable(_f) and getattr(_f, "__module__", "").startswith("pellucid") and not _name.startswith("_")
                  and _name not in ("check_device", "atleast")})
globals().update({_name: getattr(_C, _name) for _name in (
    "Error ShapeError IndexError ValueError LinAlgError OutOfMemoryError NotImplementedError IoError AutogradError Tensor Size dtype "
    "memory_format contiguous_format preserve_format channels_last is_grad_enabled is_inference_mode_enabled "
    "is_anomaly_enabled is_anomaly_check_nan_enabled is_lazy is_pending get_num_threads set_num_threads get_default_dtype "
    "promote_types can_cast seed initial_seed").split()})

_C.Size.__add__ = lambda self, other: _C.Size(tuple.__add__(self, other))

float64 = double = _C.float64
float32 = float = _C.float32
float16 = half = _C.float16
bfloat16 = _C.bfloat16
int64 = long = _C.int64
int32 = int = _C.int32
int16 = short = _C.int16
int8, uint8, bool = _C.int8, _C.uint8, _C.bool
device, layout, strided, finfo, iinfo = (_types.device, _types.layout, _types.strided, _types.finfo, _types.iinfo)
UntypedStorage, TypedStorage = _storage.UntypedStorage, _storage.TypedStorage
inf, nan, pi, e = 1e400, 1e400 - 1e400, 3.141592653589793, 2.718281828459045
newaxis = None

from .autograd.forward_modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402
from ._lazy import eval, lazy  # noqa: E402
from .random import Generator, default_generator, get_rng_state, set_rng_state  # noqa: E402
from .serialization import load, save  # noqa: E402
from ._legacy import (BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor,  # noqa: E402
                      IntTensor, LongTensor, ShortTensor, get_default_device, set_default_device, set_default_tensor_type)

__version__ = _C.__version__
_SUBMODULES = set("nn profiler optim utils autograd linalg special testing random cuda backends types serialization torchviz amp "
                  "distributions func jit multiprocessing distributed version compiler accelerator".split())
_LATER = {"autocast": "amp", "GradScaler": "amp", "vmap": "func", "make_dot": "torchviz",
          "compile": "compiler"}  # names of submodules that are named here too
_ABSENT = {"complex": "fft stft istft complex complex64 complex128 cfloat cdouble polar view_as_complex view_as_real",
           "sparse": "sparse sparse_coo_tensor sparse_csr_tensor", "quantised": "quantization ao quantize_per_tensor qint8 quint8"}


def __getattr__(name):
    """Submodules are imported when first named."""
    import importlib
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("mps", "xpu"):
        return importlib.import_module(f"{__name__}.accelerator")
    if name in _LATER:
        return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    why = next((f": there are no {kind} tensors" for kind, names in _ABSENT.items() if name in names.split()), "")
    raise AttributeError(f"module 'pellucid' has no attribute '{name}'{why}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_LATER})
