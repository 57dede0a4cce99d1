"""Old spellings that textbooks use: FloatTensor(2, 3), LongTensor([1, 2]), set_default_tensor_type."""
from . import _C
from ._tensor import Tensor
from ._types import CPU, check_device


class _TensorOf(type):
    """torch.FloatTensor and its kin: calls make tensors of one dtype; isinstance asks for it."""

    def __call__(cls, *args, device=None):
        check_device(device)
        if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
            return _C._make_tensor(args[0], cls.dtype) if not isinstance(args[0], Tensor) else args[0].to(cls.dtype)
        return Tensor(*args).to(cls.dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype


class FloatTensor(metaclass=_TensorOf):
    """Tensors of float32."""
    dtype = _C.float32


class DoubleTensor(metaclass=_TensorOf):
    """Tensors of float64."""
    dtype = _C.float64


class HalfTensor(metaclass=_TensorOf):
    """Tensors of float16."""
    dtype = _C.float16


class LongTensor(metaclass=_TensorOf):
    """Tensors of int64."""
    dtype = _C.int64


class IntTensor(metaclass=_TensorOf):
    """Tensors of int32."""
    dtype = _C.int32


class ShortTensor(metaclass=_TensorOf):
    """Tensors of int16."""
    dtype = _C.int16


class CharTensor(metaclass=_TensorOf):
    """Tensors of int8."""
    dtype = _C.int8


class BFloat16Tensor(metaclass=_TensorOf):
    """Tensors of bfloat16."""
    dtype = _C.bfloat16


class ByteTensor(metaclass=_TensorOf):
    """Tensors of uint8."""
    dtype = _C.uint8


class BoolTensor(metaclass=_TensorOf):
    """Tensors of bool."""
    dtype = _C.bool


def set_default_tensor_type(kind):
    """The dtype of new floating tensors, by the name of a tensor type."""
    kinds = {"torch.FloatTensor": _C.float32, "torch.DoubleTensor": _C.float64, "torch.HalfTensor": _C.float16}
    _C._set_default_dtype(kinds[kind] if isinstance(kind, str) else kind.dtype)


def set_default_device(device):
    """Accepts the CPU, where every tensor is."""
    check_device(device)


def get_default_device():
    """The CPU."""
    return CPU
