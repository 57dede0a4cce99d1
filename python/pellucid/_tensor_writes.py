"""Tensor methods that write into a tensor in ways no op definition describes: places, other sizes, Python functions."""
import math as _math

from . import _C
from ._tensor import Tensor

_F = _C.functions


def fill_diagonal_(self, fill_value, wrap=False):
    """Writes a value to the main diagonal."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1]:
        self.view(-1)[::self.shape[1] + 1] = fill_value
    else:
        step = sum(self.stride())
        self.as_strided((min(self.shape),), (step,), self.storage_offset()).fill_(fill_value)
    return self


def put_(self, index, source, accumulate=False):
    """Writes source to the places that index numbers in the flattened tensor."""
    flat = self.reshape(-1)
    flat.index_put_((index.reshape(-1),), source.reshape(-1), accumulate)
    return self if flat.data_ptr() == self.data_ptr() else self.copy_(flat.view(self.shape))


def resize_(self, *sizes, memory_format=None):
    """Other sizes over the same storage, which grows where it is too small; further elements are not initialised."""
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if memory_format not in (None, _C.contiguous_format, _C.preserve_format):
        raise NotImplementedError(f"resize_: {memory_format} is not there; resize first, then take contiguous(memory_format=...)")
    _C._resize(self, [int(n) for n in sizes])
    return self


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes this tensor another view of what source, a tensor or a storage, looks at; without one, a tensor of nothing."""
    if source is None:
        self.data = _F["empty"]((0,), dtype=self.dtype)
        return self
    over = source.detach() if isinstance(source, Tensor) else source._any
    if hasattr(source, "dtype") and source.dtype != self.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
    if size is None and not isinstance(source, Tensor):
        size = (source.nbytes() // self.dtype.itemsize,)
    if size is not None:
        steps = stride if stride is not None else [_math.prod(size[i + 1:]) for i in range(len(size))]
        over = _C._storage_view(over, self.dtype, storage_offset, list(size), list(steps))
    self.data = over
    return self


def _swapping(name):
    def swap(self, first, second):
        return self.transpose_(first, second)
    swap.__name__, swap.__doc__ = name, "transpose_ under another name."
    return swap


def map_(self, other, function):
    """Writes function(a, b) of each pair of elements into this tensor."""
    return self.copy_(self.new_tensor([function(a, b) for a, b in zip(self.flatten().tolist(), other.flatten().tolist())])
                      .view(self.shape))


def apply_(self, function):
    """Writes function(a) of each element into this tensor."""
    return self.copy_(self.new_tensor([function(a) for a in self.flatten().tolist()]).view(self.shape))


def install():
    """Adds what is here to the Tensor type."""
    for method in (fill_diagonal_, put_, resize_, set_, map_, apply_, _swapping("swapaxes_"),
                   _swapping("swapdims_")):
        setattr(Tensor, method.__name__, method)
    Tensor.resize_as_ = lambda self, other, memory_format=None: self.resize_(other.shape, memory_format=memory_format)
